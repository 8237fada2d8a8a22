//! Identifies the activity of a context.

use duroxide::ActivityContext;

use crate::queue::activities::ActivityKey;

/// Returns the key of the activity that this context belongs to. duroxide has no accessor for the
/// number of an activity, but its `Debug` text has the number after fields with accessors. Returns
/// `None` if the text has another form.
pub(super) fn activity_key(ctx: &ActivityContext) -> Option<ActivityKey> {
    let before = format!(
        "ActivityContext {{ instance_id: {:?}, execution_id: {}, orchestration_name: {:?}, \
        orchestration_version: {:?}, activity_name: {:?}, activity_id: ",
        ctx.instance_id(),
        ctx.execution_id(),
        ctx.orchestration_name(),
        ctx.orchestration_version(),
        ctx.activity_name(),
    );
    let text = format!("{ctx:?}");
    let (number, _) = text.strip_prefix(&before)?.split_once(',')?;
    let number: u64 = number.parse().ok()?;
    Some(ActivityKey::new(
        ctx.instance_id(),
        ctx.execution_id(),
        number,
    ))
}
