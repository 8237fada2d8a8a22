//! Many documents by their keys, in one request per physical partition.

use std::collections::{BTreeMap, HashMap};

use cdb_model::container::MemberOf;
use cdb_model::document::KnownPartition;
use cdb_model::operation::Target;
use cdb_model::query::statement::KeyLookup;
use cdb_model::stored::decode;
use cdb_model::value::ItemId;
use cdb_model::{Container, Document as _, PartitionKey, Stored};
use futures::future::try_join_all;

use crate::container::handle::ContainerClient;
use crate::container::query::run::{MAX_RESTARTS, over_splits};
use crate::error::{Error, Result};
use crate::partitions::PhysicalPartitionId;

type Location = (PartitionKey, ItemId);

impl<C: Container> ContainerClient<C> {
    /// Reads the documents with these keys. The result has the order of the keys, with `None` for
    /// each document that does not exist. Sends one request per physical partition, concurrently,
    /// or several if the keys exceed the limits of a query or the documents those of an answer.
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_client::ContainerClient;
    /// use cdb_model::Stored;
    /// use shop::{Order, OrderKey, Shop};
    ///
    /// async fn both(shop: &ContainerClient<Shop>) -> cdb_client::Result<Vec<Option<Stored<Order>>>> {
    ///     let keys = [OrderKey::new("ann", 1), OrderKey::new("bob", 2)];
    ///     shop.read_many(&keys).await
    /// }
    /// ```
    ///
    /// # Errors
    /// When the service cannot be reached or a document does not match its type.
    pub async fn read_many<T>(
        &self,
        targets: impl IntoIterator<Item = T>,
    ) -> Result<Vec<Option<Stored<T::Document>>>>
    where
        T: Target,
        T::Document: MemberOf<C>,
        T::Partition: KnownPartition,
    {
        let mut positions = HashMap::<Location, Vec<usize>>::new();
        let mut count = 0;
        for target in targets {
            let address = target.address();
            let id = address.id().map_err(Error::encode)?.clone();
            let partition = address.partition().clone().into_key();
            Self::check_key(&partition)?;
            positions.entry((partition, id)).or_default().push(count);
            count += 1;
        }
        let mut found: Vec<_> = (0..count).map(|_| None).collect();
        let documents = over_splits(MAX_RESTARTS, || self.look_up(positions.keys())).await?;
        for json in documents {
            let read = || decode::<C, T::Document>(&json).map_err(Error::decode);
            let document = read()?;
            let location = (document.document.partition_key(), document.id.clone());
            let Some((last, others)) = positions.get(&location).and_then(|at| at.split_last())
            else {
                continue;
            };
            for at in others {
                found[*at] = Some(read()?);
            }
            found[*last] = Some(document);
        }
        Ok(found)
    }

    /// Returns the existing documents at these locations, as JSON.
    async fn look_up(
        &self,
        locations: impl Iterator<Item = &Location> + Clone,
    ) -> Result<Vec<String>> {
        let mut partitions = locations.clone().map(|(partition, _)| partition);
        let first = partitions.next();
        let map = if partitions.all(|partition| Some(partition) == first) {
            None
        } else {
            Some(self.context.physical_partitions().await?)
        };
        let mut groups = BTreeMap::<_, Vec<Location>>::new();
        for location in locations {
            let range = map.as_ref().and_then(|map| map.locate(&location.0));
            let range = range.map(|range| range.id.clone());
            // Without a physical partition, a query names the logical one.
            let partition = range.is_none().then(|| location.0.clone());
            let group = groups.entry((range, partition)).or_default();
            group.push(location.clone());
        }
        let queries = groups.into_iter().flat_map(|((range, _), keys)| {
            let queries = KeyLookup::divide::<C>(keys).into_iter();
            queries.map(move |query| self.answer(range.clone(), query))
        });
        Ok(try_join_all(queries).await?.concat())
    }

    async fn answer(
        &self,
        range: Option<PhysicalPartitionId>,
        query: KeyLookup,
    ) -> Result<Vec<String>> {
        if let [(partition, id)] = query.keys() {
            // A point read is cheaper than a query.
            let accepted = self.read_accepted(partition, id).await?;
            let text = accepted.map(|accepted| accepted.text().map(str::to_owned));
            return Ok(text.transpose()?.into_iter().collect());
        }
        let run = self.query(query);
        match range {
            Some(range) => run.in_physical_partition(&range).all().await,
            None => run.all().await,
        }
    }
}
