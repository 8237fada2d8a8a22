//! The emulator by itself: `cdb-emulator [--data <dir>] [--port <port>] [--partitions <n>]`.

use cdb_emulator::Emulator;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = Emulator::builder().port(8081);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| {
            format!("{name} needs a value; known are --data, --port, --partitions")
        })?;
        builder = match &*name {
            "--data" => builder.data_dir(value),
            "--port" => builder.port(value.parse()?),
            "--partitions" => builder.physical_partitions(value.parse()?),
            _ => {
                return Err(
                    format!("{name} is unknown; known are --data, --port, --partitions").into(),
                );
            }
        };
    }
    let emulator = builder.start().await?;
    println!(
        "endpoint {}\nkey      {}",
        emulator.endpoint(),
        emulator.key()
    );
    tokio::signal::ctrl_c().await?;
    Ok(())
}
