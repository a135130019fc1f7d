//! Reads the lines of asks and rewrites them on their bytes. Pure.

use bytes::Bytes;
use prost::Message as _;
use wire::proto::hadoop_yarn::{ExecutionTypeProto, ResourceRequestProto};
use wire::raw_message::RawMessage;

use super::shares::AskKey;
use crate::fields::{allocate_request, execution_type_request, resource_request};
use crate::sizes::wants_other_resources;

/// Classification of an ask's line under the rules.
#[derive(Clone, Debug)]
pub(super) enum Line {
    /// A line that no rule concerns, or that cannot be read.
    Ignored,
    /// A line of an ask for opportunistic containers, made by the AM itself.
    OpportunisticByAm(AskKey),
    /// A line to be split between both types.
    Shared(SharedLine),
}

/// Content of a line that a rule may split.
#[derive(Clone, Debug)]
pub(super) struct SharedLine {
    pub(super) key: AskKey,
    pub(super) count: u32,
    pub(super) relax_locality: bool,
    pub(super) level: Level,
}

/// Location level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Total of the ask, for any location.
    Any,
    /// Share wanted on a rack.
    Rack,
    /// Share wanted on a host.
    Host,
}

/// Split of a line's count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    opportunistic: u32,
    /// Remaining guaranteed count; `None` if the whole line becomes opportunistic and no second
    /// line is needed.
    guaranteed: Option<u32>,
}

impl Share {
    pub(super) const fn whole(count: u32) -> Self {
        Self {
            opportunistic: count,
            guaranteed: None,
        }
    }

    pub(super) fn part(opportunistic: u32, count: u32) -> Self {
        let opportunistic = opportunistic.min(count);
        Self {
            opportunistic,
            guaranteed: Some(count - opportunistic),
        }
    }
}

/// Rewrites the split lines in place and appends their opportunistic parts.
pub(super) fn edit(message: &mut RawMessage, shares: &[Option<Share>]) {
    let mut shares = shares.iter();
    let mut added = Vec::new();
    message.edit(allocate_request::ASK, |ask| {
        let share = (*shares.next()?)?;
        let mut raw = RawMessage::parse(ask.clone()).ok()?;
        let opportunistic = opportunistic(&raw, share.opportunistic)?;
        let Some(guaranteed) = share.guaranteed else {
            return Some(opportunistic);
        };
        added.push(opportunistic);
        raw.set_varint(resource_request::NUM_CONTAINERS, u64::from(guaranteed));
        Some(raw.encode())
    });
    message.extend(allocate_request::ASK, added);
}

/// Copies a line for this number of opportunistic containers.
fn opportunistic(ask: &RawMessage, count: u32) -> Option<Bytes> {
    let mut ask = ask.clone();
    ask.set_varint(resource_request::NUM_CONTAINERS, u64::from(count));
    let kind = ask
        .message(resource_request::EXECUTION_TYPE_REQUEST)
        .unwrap_or_default();
    let mut kind = RawMessage::parse(kind).ok()?;
    let number = i32::from(ExecutionTypeProto::Opportunistic);
    kind.set_varint(
        execution_type_request::EXECUTION_TYPE,
        u64::try_from(number).ok()?,
    );
    ask.set(resource_request::EXECUTION_TYPE_REQUEST, &kind.encode());
    Some(ask.encode())
}

/// Classifies a line. `has_rule` returns whether a rule covers asks of a priority.
pub(super) fn read(line: Bytes, has_rule: impl FnOnce(i32) -> bool) -> Line {
    let Ok(ask) = ResourceRequestProto::decode(line) else {
        return Line::Ignored;
    };
    let key = AskKey::of(&ask);
    let Ok(count) = u32::try_from(ask.num_containers()) else {
        return Line::Ignored;
    };
    if !has_rule(key.priority) || wants_other_resources(&ask) {
        return Line::Ignored;
    }
    let kind = ask.execution_type_request.unwrap_or_default();
    match kind.execution_type() {
        ExecutionTypeProto::Opportunistic => Line::OpportunisticByAm(key),
        ExecutionTypeProto::Guaranteed if kind.enforce_execution_type() => Line::Ignored,
        ExecutionTypeProto::Guaranteed => Line::Shared(SharedLine {
            key,
            count,
            relax_locality: ask.relax_locality(),
            level: match ask.resource_name() {
                "*" => Level::Any,
                name if name.starts_with('/') => Level::Rack,
                _ => Level::Host,
            },
        }),
    }
}
