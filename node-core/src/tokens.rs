//! Tokens of applications, which the file systems of a secure cluster want.
//!
//! A launch context brings some. The ResourceManager may get others for the same file systems when
//! these end (`yarn.resourcemanager.proxy-user-privileges.enabled`), and sends those of all
//! applications to all nodes, once: they are kept for containers that come later, and win over what
//! these bring.

use records::{ApplicationId, Now};
use wire::token::Token;
use wire::writable::WritableReader;

use super::{Core, Effect};
use crate::applications::ApplicationState;
use crate::recovery::ApplicationRecord;

impl Core {
    /// Passes the tokens of a launch context on, before anything of the application is read from a
    /// file system. Returns whether some are new to the record of the application.
    pub(super) fn pass_tokens(&mut self, id: ApplicationId, brought: &[Token]) -> bool {
        if !self.config.is_secure {
            return false;
        }
        let mut tokens = self.system_tokens.get(&id).cloned().unwrap_or_default();
        let others = brought.iter().filter(|token| {
            let is_same = |newer: &Token| newer.service == token.service;
            !tokens.iter().any(is_same)
        });
        let others: Vec<Token> = others.cloned().collect();
        tokens.extend(others);
        self.give_tokens(id, tokens)
    }

    fn give_tokens(&mut self, id: ApplicationId, tokens: Vec<Token>) -> bool {
        let is_new = self.recorder.tokens_came(&id, &tokens);
        if !tokens.is_empty() {
            self.effects.push(Effect::Tokens { id, tokens });
        }
        is_new
    }

    /// Takes the tokens that the ResourceManager has got anew, in place of those before; none is no
    /// change.
    pub(super) fn take_system_tokens(
        &mut self,
        tokens: Vec<(ApplicationId, Vec<Token>)>,
        now: Now,
    ) {
        if !self.config.is_secure || tokens.is_empty() {
            return;
        }
        let applications = tokens.len();
        tracing::info!(
            applications,
            "the ResourceManager has new tokens of applications"
        );
        self.system_tokens = tokens.into_iter().collect();
        for (id, tokens) in self.system_tokens.clone() {
            let Some(application) = self.applications.get(&id) else {
                continue;
            };
            let is_over = matches!(
                application.state,
                ApplicationState::Finished {
                    delete_logs_at: Some(_)
                }
            );
            if !is_over && self.give_tokens(id, tokens) {
                self.remember_application(id, now);
            }
        }
    }

    /// Returns the ended applications whose tokens a heartbeat asks to be kept: those whose logs
    /// are not up.
    pub(super) fn keep_alive(&mut self, now: Now) -> Vec<ApplicationId> {
        if !self.config.is_secure || self.config.log_aggregation.is_none() {
            return Vec::new();
        }
        let ended = self.applications.iter();
        let ended = ended.filter_map(|(id, application)| match application.state {
            ApplicationState::Finishing
            | ApplicationState::Finished {
                delete_logs_at: None,
            } => Some(*id),
            ApplicationState::Running
            | ApplicationState::Finished {
                delete_logs_at: Some(_),
            } => None,
        });
        let interval_ms = self.config.tokens_end_after_ms;
        self.keep_alive.due(ended, interval_ms, now.mono)
    }

    /// Passes the tokens on that an earlier agent got.
    pub(super) fn pass_stored_tokens(&mut self, id: ApplicationId, record: &ApplicationRecord) {
        let stored = record.tokens.iter();
        let read = stored.map(|stored| {
            let mut reader = WritableReader::new(&stored.data);
            Token::read_writable(&mut reader)
        });
        let tokens: Vec<Token> = read.filter_map(Result::ok).collect();
        if self.config.is_secure && !tokens.is_empty() {
            self.effects.push(Effect::Tokens { id, tokens });
        }
    }

    /// Forgets the tokens of an application whose resources are released and whose logs are where
    /// they belong. Its record is to be stored anew.
    pub(super) fn forget_tokens(&mut self, id: ApplicationId) {
        if self.config.is_secure {
            self.recorder.forget_tokens(&id);
            self.effects.push(Effect::ForgetTokens(id));
        }
    }
}
