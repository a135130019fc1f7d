//! Exchanges AMRMTokens: the AM sees only the token that it connects with, or a newer one.
//!
//! A renewed token of the ResourceManager is taken out of the answer: this node authenticates with
//! it from then on. An AM that connected with an older token than it should have gets the newest
//! one in every answer until it connects with that: a local one of the newest key, or, if it keeps
//! the ResourceManager's, that one once it is stored. Source: `AMRMProxyService.updateAMRMTokens`.

use std::convert::Infallible;

use prost::Message as _;
use wire::proto::hadoop_common::TokenProto;
use wire::token::Token;

use crate::call::{AmMethod, Outcome};
use crate::fields::allocate_response::AM_RM_TOKEN;
use crate::interceptor::{Action, Actions, Context, Interceptor};

/// Interceptor that exchanges renewed tokens in answers. Keeps no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenSwap;

impl Interceptor for TokenSwap {
    type Effect = Infallible;
    type Event = Infallible;

    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Actions<'_, Infallible>,
    ) {
        let (AmMethod::Allocate, Ok(response)) = (method, outcome) else {
            return;
        };
        if let Some(token) = response.message.message(AM_RM_TOKEN) {
            response.message.remove(AM_RM_TOKEN);
            match TokenProto::decode(token) {
                Ok(token) => actions.chain.push(Action::UseRmToken(Token::from(token))),
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
