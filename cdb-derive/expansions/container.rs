const _: () = {
    use ::cdb_model::__private as __model;
    #[automatically_derived]
    impl __model::Container for LargerShop {
        const NAME: &'static __model::str = "LargerShop";
        const DISCRIMINATOR: &'static __model::str = <Shop as __model::Container>::DISCRIMINATOR;
        const PARTITION_KEY: &'static [&'static __model::str] = <Shop as __model::Container>::PARTITION_KEY;
        const DOCUMENTS: &'static [&'static __model::DocumentShape] = {
            const OWN: &[&__model::DocumentShape] = &[
                <Refund as __model::Document>::SHAPE,
            ];
            const INHERITED: &[&__model::DocumentShape] = <Shop as __model::Container>::DOCUMENTS;
            const ALL: [&__model::DocumentShape; { OWN.len() + INHERITED.len() }] = __model::join_shapes(
                INHERITED,
                OWN,
            );
            &ALL
        };
        const DEFAULT_TTL: __model::DefaultTtl = __model::needed_ttl(
            <Shop as __model::Container>::DEFAULT_TTL,
            <Self as __model::Container>::DOCUMENTS,
        );
        fn decode(
            discriminator: &__model::str,
            json: &__model::str,
        ) -> __model::Result<Self, __model::DecodeError> {
            if discriminator == <Refund as __model::Document>::SHAPE.discriminator {
                return __model::decode_fields(json).map(Self::Refund);
            }
            <Shop as __model::Container>::decode(discriminator, json).map(Self::Shop)
        }
        fn shape(&self) -> &'static __model::DocumentShape {
            match self {
                Self::Refund(document) => __model::shape_of(document),
                Self::Shop(document) => __model::Container::shape(document),
            }
        }
    }
    #[automatically_derived]
    impl __model::From<Shop> for LargerShop {
        fn from(document: Shop) -> Self {
            Self::Shop(document)
        }
    }
    #[automatically_derived]
    impl __model::From<Refund> for LargerShop {
        fn from(document: Refund) -> Self {
            Self::Refund(document)
        }
    }
    #[automatically_derived]
    impl __model::MemberOf<LargerShop> for Refund {}
    #[automatically_derived]
    impl __model::Extends<Shop> for LargerShop {}
    #[automatically_derived]
    impl __model::Queryable for LargerShop {
        const SHAPES: &'static [&'static __model::DocumentShape] = <LargerShop as __model::Container>::DOCUMENTS;
        const IS_PARTIAL: __model::bool = false;
    }
    #[automatically_derived]
    impl __model::QueriedIn<LargerShop> for LargerShop {
        fn read_stored(
            json: &__model::str,
        ) -> __model::Result<__model::Stored<Self>, __model::DecodeError> {
            __model::read_any::<LargerShop>(json)
        }
    }
    const _: () = __model::check_partition_key(
        &__model::Place::new::<LargerShop>("LargerShop", 1usize),
    );
    const _: () = __model::check_discriminator(
        &__model::Place::new::<LargerShop>("LargerShop", 1usize),
    );
    const _: () = __model::check_type(
        &__model::Place::new::<LargerShop>("LargerShop", 1usize),
    );
    const _: () = __model::check_ids(
        &__model::Place::new::<LargerShop>("LargerShop", 1usize),
    );
    const _: () = __model::check_indexing(
        &__model::Place::new::<LargerShop>("LargerShop", 1usize),
    );
    const _: () = __model::check_ttl(
        &__model::Place::new::<LargerShop>("LargerShop", 1usize),
    );
    const _: () = __model::check_computed(
        &__model::Place::new::<LargerShop>("LargerShop", 1usize),
    );
    const _: () = __model::check_search(
        &__model::Place::new::<LargerShop>("LargerShop", 1usize),
    );
    const _: () = __model::check_unique(
        &__model::Place::new::<LargerShop>("LargerShop", 1usize),
    );
};
