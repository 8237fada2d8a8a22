// The imports of the cases.

#[allow(unused_imports)]
use cdb_model::operation::{Leasable, Lease};
#[allow(unused_imports)]
use cdb_model::shape::UpcastError;
#[allow(unused_imports)]
use cdb_model::stored::UnknownFields;
#[allow(unused_imports)]
use cdb_model::value::TextInteger;
#[allow(unused_imports)]
use cdb_model::{
    Batch, Container, Document, PartitionKeyFields, Patch, Projection, Query, Scalar, Timestamp,
    sql,
};
#[allow(unused_imports)]
use serde::{Deserialize, Serialize};
