//! Searches by words and vectors, if the account has them.

use cdb_client::ContainerClient;
use cdb_model::query::search::{Hit, Rank};
use cdb_model::{Document as _, Query};

use crate::doctor::account::answer::{Answer, Failure, Outcome};
use crate::doctor::account::check::Check;
use crate::doctor::account::samples::{Searched, SearchedText};

/// Name, text and vector of each document.
const TEXTS: [(&str, &str, Option<[f32; 3]>); 4] = [
    ("bike", "a red bike and a red car", Some([1.0, 0.0, 0.0])),
    ("car", "a green car", Some([0.9, 0.1, 0.0])),
    ("house", "a house on a hill", Some([0.0, 0.0, 1.0])),
    ("lost", "nothing at all", None),
];

/// Searches the texts. `None` if the account has no search.
async fn search(
    check: &Check,
    rank: Rank<SearchedText>,
) -> Result<Result<Vec<Hit<SearchedText>>, String>, Failure> {
    let container = match check.searched().await {
        Ok(container) => container,
        Err(why) => return Ok(Err(why.clone())),
    };
    write(container).await?;
    let query = Query::<SearchedText>::across_partitions().search(rank, 10);
    Ok(Ok(container.search(query).await?))
}

async fn write(container: &ContainerClient<Searched>) -> Result<(), Failure> {
    for (name, body, meaning) in TEXTS {
        let text = SearchedText {
            topic: format!("topic-{name}"),
            name: name.to_owned(),
            body: body.to_owned(),
            meaning: meaning.map(Vec::from),
        };
        container.run(text.upsert()).await?;
    }
    Ok(())
}

fn names(hits: &[Hit<SearchedText>]) -> Vec<&str> {
    hits.iter()
        .map(|hit| &*hit.document.document.name)
        .collect()
}

/// Source: full-text-search: BM25 ranks rarer and more frequent words first.
pub(super) async fn full_text(check: &Check) -> Outcome {
    Ok(
        match search(check, SearchedText::BODY.ranked(["red", "car"])).await? {
            Ok(hits) => Answer::when(
                names(&hits).starts_with(&["bike", "car"]),
                names(&hits).join(", "),
            ),
            Err(why) => Answer::NotAsked(why),
        },
    )
}

/// No source tells it.
pub(super) async fn missing_vector(check: &Check) -> Outcome {
    Ok(
        match search(check, SearchedText::MEANING.nearest(vec![1.0, 0.0, 0.0])).await? {
            Ok(hits) => {
                let found = names(&hits);
                let scored = hits.iter().find(|hit| hit.document.document.name == "lost");
                let is_last = found
                    .iter()
                    .position(|name| *name == "lost")
                    .is_none_or(|at| at == 3);
                let score = scored.map_or("it is left out".to_owned(), |hit| {
                    format!("its score is {}", hit.score)
                });
                Answer::when(
                    found.starts_with(&["bike", "car", "house"]) && is_last,
                    format!("{}; {score}", found.join(", ")),
                )
            }
            Err(why) => Answer::NotAsked(why),
        },
    )
}

/// Source: hybrid-search: reciprocal rank fusion.
pub(super) async fn hybrid(check: &Check) -> Outcome {
    let rank = SearchedText::BODY
        .ranked(["red"])
        .and(SearchedText::MEANING.nearest(vec![1.0, 0.0, 0.0]));
    Ok(match search(check, rank).await? {
        Ok(hits) => Answer::when(
            names(&hits).first() == Some(&"bike"),
            names(&hits).join(", "),
        ),
        Err(why) => Answer::NotAsked(why),
    })
}
