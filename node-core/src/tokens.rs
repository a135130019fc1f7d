//! Tokens of applications, which the file systems of a secure cluster want.

use records::ApplicationId;
use wire::token::Token;
use wire::writable::WritableReader;

use super::{Core, Effect};
use crate::recovery::ApplicationRecord;

impl Core {
    /// Passes the tokens of a launch context on, before anything of the application is read from a
    /// file system. Returns whether some are new to the record of the application.
    pub(super) fn pass_tokens(&mut self, id: ApplicationId, tokens: &[Token]) -> bool {
        if !self.config.is_secure || tokens.is_empty() {
            return false;
        }
        let is_new = self.recorder.tokens_came(&id, tokens);
        let tokens = tokens.to_vec();
        self.effects.push(Effect::Tokens { id, tokens });
        is_new
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
