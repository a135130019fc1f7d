//! Names of the kinds of effects: a run tells which of them it has performed.

use node_core::Effect;

/// Every kind of effect.
pub const KINDS: [&str; 26] = [
    "Adopt",
    "AllEnded",
    "ApplyLimits",
    "CleanUp",
    "DeleteLogs",
    "EndPipelines",
    "FinishApplication",
    "ForceKill",
    "ForgetResources",
    "HeartbeatNow",
    "InitializeApplication",
    "Launch",
    "Link",
    "Localize",
    "Logs",
    "Pause",
    "Reap",
    "Record",
    "ReleaseResources",
    "Resume",
    "SetNodeResource",
    "SetQueuingLimit",
    "Signal",
    "Store",
    "Terminate",
    "UseSets",
];

/// Returns the kind of an effect.
pub(super) const fn kind(effect: &Effect) -> &'static str {
    match effect {
        Effect::Adopt(_) => "Adopt",
        Effect::AllEnded => "AllEnded",
        Effect::ApplyLimits(_) => "ApplyLimits",
        Effect::CleanUp { .. } => "CleanUp",
        Effect::DeleteLogs(_) => "DeleteLogs",
        Effect::EndPipelines(_) => "EndPipelines",
        Effect::FinishApplication { .. } => "FinishApplication",
        Effect::ForceKill(_) => "ForceKill",
        Effect::ForgetResources(_) => "ForgetResources",
        Effect::HeartbeatNow => "HeartbeatNow",
        Effect::InitializeApplication { .. } => "InitializeApplication",
        Effect::Launch(_) => "Launch",
        Effect::Link(_) => "Link",
        Effect::Localize { .. } => "Localize",
        Effect::Logs(_) => "Logs",
        Effect::Pause(_) => "Pause",
        Effect::Reap { .. } => "Reap",
        Effect::Record(_) => "Record",
        Effect::ReleaseResources(_) => "ReleaseResources",
        Effect::Resume(_) => "Resume",
        Effect::SetNodeResource(_) => "SetNodeResource",
        Effect::SetQueuingLimit(_) => "SetQueuingLimit",
        Effect::Signal { .. } => "Signal",
        Effect::Store(_) => "Store",
        Effect::Terminate(_) => "Terminate",
        Effect::UseSets { .. } => "UseSets",
    }
}
