//! An id pattern is a string of legal characters and fields, and every value ends at a separator.

include!("../declaration.rs");

/// The pattern contains literals and placeholders, so it is a string.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = customer)]
struct NoString {
    #[document(partition_key)]
    customer: String,
}

/// The service refuses ids with a slash.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "orders/{customer}")]
struct Slash {
    #[document(partition_key)]
    customer: String,
}

/// A brace opens a placeholder.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer")]
struct NotClosed {
    #[document(partition_key)]
    customer: String,
}

/// A placeholder is a field.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{custmer}")]
struct Unknown {
    #[document(partition_key)]
    customer: String,
}

/// The fields of an id always have a value.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Optional {
    #[document(partition_key)]
    customer: String,
    number: Option<u64>,
}

/// A value ends at a separator, so that ids can be parsed and patterns compared.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}-{number}")]
struct NoSeparator {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

/// Two values without a separator cannot be parsed.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}{number}")]
struct Touching {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

/// A method is part of the id if the pattern names it and it returns a value of the given type.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{day}", id_part(customer: String), id_part(month: String))]
#[document(id_part(day: Option<u8>), id_part(hour))]
struct Method {
    #[document(partition_key)]
    customer: String,
}
