//! The protocols as small state machines. The tests visit every reachable state.
//!
//! `protocol` is about safety: locks, commits and deliveries. Two runtimes work on a sender and a receiver. At any point a runtime may crash and lose its
//! memory, a lock may expire while its holder runs, an answer may be lost, a request may be
//! repeated and a delivery may happen again. The invariants hold in every reachable state. Each
//! condition of the protocol is necessary: without it, a test finds a violation.
//!
//! The other models are about liveness: every due item is handed out, and what is handed out ends or
//! is handed out again. They have claims, windows, health and owners as state, and discrete time.
//! Each rule is necessary: without it, a test finds a fair run in which an item waits for ever, waits
//! for too long, or runs twice. The test asserts the steps of that run.

mod claims;
mod explore;
mod fairness;
mod hand_over;
mod health;
mod inbox;
mod ownership;
mod protocol;
mod rules;
mod windows;

use explore::{Explored, explore};
use protocol::{Condition, State};
use rules::Rules;

fn check(rules: Rules<Condition>) -> Explored<State, &'static str> {
    explore(State::start(), |state| state.steps(rules), State::violation)
}

fn violation(rules: Rules<Condition>) -> String {
    let found = check(rules).violation.expect("a condition is missing");
    let (what, path) = found;
    format!("{what} after {path:#?}")
}

#[test]
fn no_order_of_crashes_and_lost_answers_breaks_the_protocol() {
    let explored = check(Rules::ALL);
    println!("{} states", explored.states);
    assert_eq!(explored.violation, None);
    assert!(explored.states > 1_000, "only {} states", explored.states);
}

#[test]
fn every_state_can_reach_the_complete_end() {
    let explored = check(Rules::ALL);
    assert_eq!(explored.stuck(State::is_done), None);
}

#[test]
fn without_the_condition_at_commit_two_runtimes_commit_under_one_lock() {
    let found = violation(Rules::without(&[Condition::CommitIfMatch]));
    assert!(found.contains("consumed twice"), "{found}");
}

#[test]
fn without_the_condition_at_the_lock_two_runtimes_hold_it() {
    let found = violation(Rules::without(&[Condition::LockIfMatch]));
    assert!(found.contains("two holders"), "{found}");
}

#[test]
fn without_derived_ids_a_second_delivery_doubles_a_message() {
    let found = violation(Rules::without(&[Condition::DerivedIds]));
    assert!(found.contains("delivered twice"), "{found}");
}

#[test]
fn without_a_trace_a_second_delivery_brings_back_what_was_consumed() {
    let found = violation(Rules::without(&[Condition::Trace]));
    assert!(found.contains("delivered twice"), "{found}");
}

#[test]
fn without_one_batch_a_crash_between_commit_and_intent_loses_the_message() {
    let explored = check(Rules::without(&[Condition::IntentWithCommit]));
    let (path, _) = explored.stuck(State::is_done).expect("it is lost for good");
    assert!(!path.is_empty());
}

#[test]
fn without_the_commit_token_a_lost_answer_would_be_taken_for_a_lost_turn() {
    let found = violation(Rules::without(&[Condition::CommitToken]));
    assert!(found.contains("answered wrongly"), "{found}");
}
