// The imports of the cases.

#[allow(unused_imports)]
use cdb_model::{
    Batch, Container, Document, Leasable, Lease, PartitionKeyFields, Patch, Projection, Query, Scalar, TextInteger, Timestamp,
    UnknownFields, UpcastError, sql,
};
#[allow(unused_imports)]
use serde::{Deserialize, Serialize};
