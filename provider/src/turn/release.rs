//! Locks given back when the provider ends, so that others need not wait until they end by themselves.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;

use super::ahead;
use super::lock::attempts_before;
use crate::documents::Instance;
use crate::provider::Inner;

/// How many locks are given back at the same time.
const AT_ONCE: usize = 16;

/// Gives back the locks that no dispatcher has begun to use.
pub(crate) async fn give_back_ahead(inner: &Inner) {
    stream::iter(inner.turns.take_unwanted(Duration::ZERO))
        .for_each_concurrent(AT_ONCE, |turn| ahead::give_back(inner, turn))
        .await;
}

/// Gives back all locks of this process: those too of turns that their runtime has broken off, and of fetches that it
/// has dropped. A turn that is being committed at this moment is waited for.
pub(crate) async fn give_back_all(inner: &Inner) {
    give_back_ahead(inner).await;
    stream::iter(inner.turns.held())
        .for_each_concurrent(AT_ONCE, |shared| async move {
            let mut turn = shared.lock().await;
            if turn.holds(inner.container.now()) {
                let instance_id = turn.instance.document.instance_id.clone();
                // By its token: a renewal or commit that was dropped may have moved the version.
                let attempts = attempts_before(&turn);
                ahead::release_taken(inner, &instance_id, &turn.token, |_| attempts).await;
                inner.finish_turn(&mut turn);
            }
        })
        .await;
    stream::iter(inner.turns.take_tried())
        .for_each_concurrent(AT_ONCE, |(token, instance_id)| async move {
            let attempts = |instance: &Instance| instance.attempts.clone();
            ahead::release_taken(inner, &instance_id, &token, attempts).await;
        })
        .await;
}
