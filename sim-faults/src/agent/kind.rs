//! Names of the kinds of effects: a run tells which of them it has performed.

use node_core::Effect;

/// Defines the names of these kinds. One that is missing here does not compile.
macro_rules! kinds {
    ($($kind:ident)*) => {
        /// Every kind of effect.
        pub const KINDS: &[&str] = &[$(stringify!($kind)),*];

        /// Returns the kind of an effect.
        pub(super) const fn kind(effect: &Effect) -> &'static str {
            match effect {
                $(Effect::$kind { .. } => stringify!($kind),)*
            }
        }
    };
}

kinds! {
    Adopt AllEnded ApplyLimits CleanUp ContainerInitialized ContainerStopped DeleteLogs
    EndPipelines FinishApplication ForceKill ForgetResources ForgetTokens HeartbeatNow
    InitializeApplication Launch Link Localize Logs Observe Offer Pause Reap Record ReleaseResources
    Resume SetNodeResource SetQueuingLimit SetRmIdentifier Signal Store Terminate Tokens UseSets
}
