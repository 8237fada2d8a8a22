/// The key of a [`Order`] within its partition. Its id is `{customer_id}:order:{number}`.
#[derive(
    ::cdb_model::__private::Clone,
    ::cdb_model::__private::Debug,
    ::cdb_model::__private::PartialEq,
    ::cdb_model::__private::Eq,
    ::cdb_model::__private::PartialOrd,
    ::cdb_model::__private::Ord,
    ::cdb_model::__private::Hash
)]
#[allow(non_snake_case, reason = "the names are those of the document")]
pub struct OrderKey {
    /// See [`Order::customer_id`].
    pub customer_id: String,
    /// See [`Order::number`].
    pub number: u64,
}
#[allow(non_snake_case, reason = "the names are those of the document")]
const _: () = {
    use ::cdb_model::__private as __model;
    #[allow(dead_code, reason = "not every key is used")]
    #[automatically_derived]
    impl OrderKey {
        const __CUSTOMER_ID: __model::IdCodec<String> = __model::id_codec::<String>();
        const __NUMBER: __model::IdCodec<u64> = __model::id_codec::<u64>();
        /// Creates the key from its fields.
        pub fn new(customer_id: impl __model::Into<String>, number: u64) -> Self {
            OrderKey {
                customer_id: __model::Into::into(customer_id),
                number,
            }
        }
        /// Returns the address of the document with this key in a partition.
        pub fn in_partition(
            &self,
            partition: impl __model::Into<__model::PartitionKey>,
        ) -> __model::DocumentAddress<Order> {
            __model::DocumentKey::in_partition(self, partition)
        }
        /// Patches the document with this key: add the changes to the operation.
        pub fn patch(
            &self,
        ) -> __model::Patch<
            Order,
            __model::DocumentAddress<Order, __model::PartitionKey>,
        > {
            __model::Patch::new().at(self)
        }
        /// Deletes the document with this key.
        pub fn delete(&self) -> __model::Delete<Order, __model::PartitionKey> {
            __model::DocumentKey::delete(self)
        }
    }
    #[automatically_derived]
    impl __model::DocumentKey for OrderKey {
        type Document = Order;
        type Partition = __model::PartitionKey;
        fn to_id(&self) -> __model::Result<__model::ItemId, __model::IdError> {
            __model::format_id(
                <Order as __model::Document>::SHAPE,
                &[
                    ("customer_id", Self::__CUSTOMER_ID.write(&self.customer_id)),
                    ("number", Self::__NUMBER.write(&self.number)),
                ],
            )
        }
        fn parse(id: &__model::str) -> __model::Result<Self, __model::IdError> {
            let parts = __model::IdParts::split(
                <Order as __model::Document>::SHAPE,
                id,
            )?;
            __model::Result::Ok(OrderKey {
                customer_id: Self::__CUSTOMER_ID.read("customer_id", &parts)?,
                number: Self::__NUMBER.read("number", &parts)?,
            })
        }
        fn partition(&self) -> __model::PartitionKey {
            __model::PartitionKey::from_values(
                __model::vec![
                    __model::PartitionKeyPart::to_partition_key_value(& self.customer_id)
                ],
            )
        }
    }
    #[allow(dead_code, reason = "not every path is used")]
    #[automatically_derived]
    impl Order {
        /// The path of [`Order::customer_id`], stored at `/customerId`. Not indexed. Never changes: it is the partition key.
        pub const CUSTOMER_ID: __model::Path<
            Order,
            String,
            __model::Unindexed,
            __model::Fixed,
        > = __model::Path::new("/customerId");
        /// The path of [`Order::number`], stored at `/number`. Not indexed. Never changes: it is part of the id.
        pub const NUMBER: __model::Path<
            Order,
            u64,
            __model::Unindexed,
            __model::Fixed,
        > = __model::Path::new("/number");
        /// The path of [`Order::total_cents`], stored at `/totalCents`. Indexed: filters and sorts may use it.
        pub const TOTAL_CENTS: __model::Path<
            Order,
            u64,
            __model::Indexed,
            __model::Patchable,
        > = __model::Path::new("/totalCents");
        /// The path of [`Order::remark`], stored at `/remark`. Excluded from the index.
        pub const REMARK: __model::Path<
            Order,
            Option<String>,
            __model::Unindexed,
            __model::Patchable,
        > = __model::Path::new("/remark");
        /// Sorts by `type`, `total_cents` descending. Its composite index also serves the reverse order.
        pub const BY_TOTAL: __model::Composite<Order> = __model::Composite::new(
            &<Order as __model::Document>::SHAPE.composites[0usize],
        );
    }
    const _: () = __model::is_scalar::<u64>();
    const _: () = __model::is_ordered::<u64>();
    #[automatically_derived]
    impl __model::Document for Order {
        type Key = OrderKey;
        const SHAPE: &'static __model::DocumentShape = &{
            #[allow(unused_imports, reason = "every type may be ordered, or an option")]
            use __model::{Required as _, Unordered as _};
            __model::DocumentShape {
                name: "Order",
                discriminator: "order",
                id: &[
                    __model::IdSegment::Field("customer_id"),
                    __model::IdSegment::Literal(":order:"),
                    __model::IdSegment::Field("number"),
                ],
                partition_key: &["/customerId"],
                fields: &[
                    __model::FieldShape {
                        name: "customer_id",
                        path: "/customerId",
                        indexing: __model::FieldIndexing::NotIndexed,
                        ordered: false,
                        optional: false,
                        absent: __model::AbsentOf::<String>::VALUE,
                    },
                    __model::FieldShape {
                        name: "number",
                        path: "/number",
                        indexing: __model::FieldIndexing::NotIndexed,
                        ordered: false,
                        optional: false,
                        absent: __model::AbsentOf::<u64>::VALUE,
                    },
                    __model::FieldShape {
                        name: "total_cents",
                        path: "/totalCents",
                        indexing: __model::FieldIndexing::Indexed,
                        ordered: __model::OrderOf::<u64>::IS_ORDERED,
                        optional: false,
                        absent: __model::AbsentOf::<u64>::VALUE,
                    },
                    __model::FieldShape {
                        name: "remark",
                        path: "/remark",
                        indexing: __model::FieldIndexing::Excluded,
                        ordered: false,
                        optional: true,
                        absent: __model::AbsentOf::<Option<String>>::VALUE,
                    },
                ],
                composites: &[
                    __model::CompositeShape {
                        name: "BY_TOTAL",
                        paths: &[
                            __model::CompositePath {
                                path: __model::CompositeTarget::Discriminator,
                                direction: __model::Direction::Ascending,
                            },
                            __model::CompositePath {
                                path: __model::CompositeTarget::Path("/totalCents"),
                                direction: __model::Direction::Descending,
                            },
                        ],
                    },
                ],
                ..__model::DocumentShape::EMPTY
            }
        };
        fn field_codec() -> __model::FieldCodec<Self> {
            use __model::{MissingCodec as _, SerdeCodec as _};
            (&__model::FindCodec::<Self>::start()).field_codec()
        }
        fn key(&self) -> Self::Key {
            OrderKey {
                customer_id: __model::Clone::clone(&self.customer_id),
                number: __model::Clone::clone(&self.number),
            }
        }
        fn partition_key(&self) -> __model::PartitionKey {
            __model::PartitionKey::from_values(
                __model::vec![
                    __model::PartitionKeyPart::to_partition_key_value(& self.customer_id)
                ],
            )
        }
    }
    #[automatically_derived]
    impl __model::Queryable for Order {
        const SHAPES: &'static [&'static __model::DocumentShape] = &[
            <Order as __model::Document>::SHAPE,
        ];
        const IS_PARTIAL: __model::bool = true;
    }
    #[automatically_derived]
    impl<__C: __model::Container> __model::QueriedIn<__C> for Order
    where
        Order: __model::MemberOf<__C>,
    {
        fn read_stored(
            json: &__model::str,
        ) -> __model::Result<__model::Stored<Self>, __model::DecodeError> {
            __model::read_document::<__C, Self>(json)
        }
    }
};
