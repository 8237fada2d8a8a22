//! `cdb export --instance`: writes the documents of instances, each with its descendants.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;

use cdb_model::query::statement::RawSql;
use duroxide::providers::ProviderAdmin as _;
use serde_json::value::RawValue;

use super::exported::{Exported, refuse_existing, remove_progress};
use super::whole_file::NewFile;
use crate::container::Orchestrations;
use crate::exit::{Exit, Failure};
use crate::output::Console;

/// What to do when the file exists. `--resume` continues the export of a container only.
const NAME_ANOTHER: &str = "name another file, or delete it";

/// Exports instances to a file, or to standard output. The file appears when it is complete.
pub(super) async fn export(
    orchestrations: &Orchestrations,
    instances: &[String],
    file: Option<&Path>,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    if let Some(file) = file {
        refuse_existing(file, NAME_ANOTHER)?;
    }
    // Before anything is written, so that a wrong id leaves no part of an export.
    let ids = ids(orchestrations, instances).await?;
    let Some(path) = file else {
        let mut exported = Exported::default();
        for id in &ids {
            for document in documents(orchestrations, id).await? {
                exported.write(document.get(), console.out)?;
            }
        }
        console.remark(&exported.to_string())?;
        return Ok(Exit::Ok);
    };
    let cannot_write = |error| Failure::usage(format!("cannot write {}: {error}", path.display()));
    let mut file = NewFile::create(path).map_err(cannot_write)?;
    let mut exported = Exported::default();
    for id in &ids {
        for document in documents(orchestrations, id).await? {
            exported.write(document.get(), &mut file)?;
        }
    }
    file.flush()?;
    refuse_existing(path, NAME_ANOTHER)?;
    // That of an older export does not belong to the new file.
    remove_progress(path)?;
    file.complete().map_err(cannot_write)?;
    console.answer(&exported)?;
    Ok(Exit::Ok)
}

/// Returns the ids of instances and of their descendants, each once: an instance may be named twice, or
/// beside its parent.
///
/// # Errors
/// When instances do not exist, with all of them.
async fn ids(orchestrations: &Orchestrations, named: &[String]) -> Result<Vec<String>, Failure> {
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    let (mut checked, mut known) = (HashSet::new(), HashSet::new());
    for id in named.iter().filter(|id| checked.insert(*id)) {
        match orchestrations.instance(id).await {
            Ok(_) => {}
            Err(failure) if failure.exit == Exit::Finding => {
                missing.push(failure.message);
                continue;
            }
            Err(failure) => return Err(failure),
        }
        let tree = orchestrations.provider.get_instance_tree(id).await?;
        let new = tree.all_ids.into_iter();
        all.extend(new.filter(|id| known.insert(id.clone())));
    }
    if missing.is_empty() {
        return Ok(all);
    }
    Err(Failure::finding(format!(
        "{}; nothing was exported: correct or leave out these ids",
        missing.join("; ")
    )))
}

/// Reads the documents of an instance.
///
/// # Errors
/// When the instance has been deleted since its id was checked: the export would not be complete.
async fn documents(
    orchestrations: &Orchestrations,
    id: &str,
) -> Result<Vec<Box<RawValue>>, Failure> {
    let container = orchestrations.container.in_background();
    let query = RawSql::<Box<RawValue>>::new("SELECT * FROM c").in_partition(id);
    let documents = container.query(query).all().await?;
    if documents.is_empty() {
        return Err(Failure::finding(format!(
            "instance `{id}` was deleted during the export; export again"
        )));
    }
    Ok(documents)
}
