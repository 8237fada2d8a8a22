//! The instances that this process knows: their messages, cached state, locks and running turns.

mod attempt;
mod cache;
mod known;
pub(crate) mod lock;
mod message;
mod new_message;
mod offer;
mod pending;
mod poll;
mod queue;
pub(crate) mod release;
mod reservations;
mod room;
mod turn;
mod turn_result;
mod unfit;
mod version;

pub(crate) use attempt::{Arrived, Attempt, Presence};
pub(crate) use cache::{CachedInstance, History};
pub(crate) use known::Instances;
pub(crate) use message::{
    Content, MAX_MESSAGES, Message, Parent, sort, sort_cancellations_first, split_off_others,
};
pub(crate) use new_message::NewMessage;
pub(crate) use offer::NextTurn;
pub(crate) use poll::AllMessages;
pub(crate) use queue::InstanceQueue;
pub(crate) use release::take_over;
pub(crate) use room::Room;
pub(crate) use turn::{Left, Turn, TurnInstance};
pub(crate) use turn_result::{RejectedCommit, TurnResult};
pub(crate) use version::{pack_version, supports};
