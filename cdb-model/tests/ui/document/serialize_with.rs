//! Filters and patches serialize a value by its type.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[serde(with = "text")]
    #[document(index)]
    total: u64,
}

mod text {
    pub fn serialize<S: serde::Serializer>(total: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&total.to_string())
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(_: D) -> Result<u64, D::Error> {
        Ok(0)
    }
}
