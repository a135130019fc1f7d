//! The proxy over real connections, between AMs and a ResourceManager scripted by the test.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test, as the tests do"
)]

mod attempts;
mod kept_tokens;
mod looks;
mod node;
mod passing;
mod promotions;
mod recovery;
mod restarted_rm;
mod rm_trouble;
mod role_history;
mod tokens;
