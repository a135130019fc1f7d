//! Exchanges AMRMTokens: the AM sees only the local token, the ResourceManager only its own.
//!
//! A renewed token of the ResourceManager never reaches the AM: this node authenticates with it
//! from then on. When the local key has rolled and the AM connected with a token of the old key,
//! every answer carries the new local token until the AM connects with it. Source:
//! `AMRMProxyService.updateAMRMTokens`.

use prost::Message as _;
use wire::proto::hadoop_common::TokenProto;
use wire::token::Token;

use crate::fields::allocate_response::AM_RM_TOKEN;
use crate::interceptor::{Action, AmMethod, Context, Interceptor, Outcome};

/// Interceptor that exchanges renewed tokens in answers. Keeps no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenSwap;

impl Interceptor for TokenSwap {
    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        let (AmMethod::Allocate, Ok(response)) = (method, outcome) else {
            return;
        };
        if let Some(token) = response.message.message(AM_RM_TOKEN) {
            response.message.remove(AM_RM_TOKEN);
            match TokenProto::decode(token) {
                Ok(token) => actions.push(Action::UseRmToken(Token::from(token))),
                Err(error) => {
                    tracing::warn!(attempt = %context.attempt, %error, "the ResourceManager's new token cannot be read");
                }
            }
        }
        if let Some(token) = context.renewed_token {
            let token = TokenProto::from(token.clone());
            response.message.set(AM_RM_TOKEN, &token.encode_to_vec());
        }
    }
}
