//! What a caller may see, by the node's rules, and how others are refused.

use std::sync::Arc;

use access_control::{AccessRules, User};
use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Request, StatusCode};
use node_view::snapshot::NodeSnapshot;

use super::answer::{Answer, redirect, text};
use super::caller::Caller;
use super::target::Target;
use super::viewer::Viewer;
use super::{Site, last, wall_clock};
use crate::source::NodeSource;

impl<S: NodeSource> Site<S> {
    fn rules(&self) -> &AccessRules {
        &self.options.access
    }

    /// Returns who asks: by Kerberos, or by a name that is believed.
    ///
    /// # Errors
    /// The answer to a caller who has to prove itself, or to give a name.
    pub(super) async fn caller(
        &self,
        request: &Request<Bytes>,
        target: &Target,
    ) -> Result<Caller, Answer> {
        let now = wall_clock();
        if let Some(kerberos) = &self.options.kerberos {
            return kerberos.caller(request, now).await;
        }
        let caller = self.callers.caller(request.headers(), target, now);
        let open = matches!(target.segments.as_slice(), [first, ..] if first == "health" || first == "static");
        if caller.name.is_none() && !open && !self.rules().anonymous_allowed {
            return Err(nameless());
        }
        Ok(caller)
    }

    /// Returns the reader of what the snapshot shows. The system is asked for groups only where
    /// they matter.
    pub(super) async fn viewer(&self, name: Option<String>, node: &NodeSnapshot) -> Viewer {
        let rules = self.rules();
        let groups_matter = rules.enabled
            && (rules.administrators.names_groups()
                || node
                    .applications
                    .iter()
                    .any(|app| app.view_acl.names_groups()));
        let user = match name {
            Some(name) => Some(self.user(name, groups_matter).await),
            None => None,
        };
        Viewer::new(Arc::clone(&self.options.access), user)
    }

    /// Whether the caller may see every application's name: the live page and the role histories
    /// name them all.
    pub(super) async fn may_watch(&self, name: &Option<String>) -> bool {
        let rules = self.rules();
        if !(rules.enabled && rules.filter_lists) {
            return true;
        }
        match name {
            Some(name) => self.is_administrator(name.clone()).await,
            // Anonymous callers may see all that applications show.
            None => true,
        }
    }

    /// Whether the caller may see numbers of the node and its configuration (Hadoop:
    /// `HttpServer2.isInstrumentationAccessAllowed`).
    ///
    /// # Errors
    /// The refusal.
    pub(super) async fn may_measure(&self, name: Option<String>) -> Result<(), Answer> {
        if self.rules().instrumentation_requires_admin {
            self.require_administrator(name).await
        } else {
            Ok(())
        }
    }

    /// Requires an administrator where `hadoop.security.authorization` is on (Hadoop:
    /// `HttpServer2.hasAdministratorAccess`).
    ///
    /// # Errors
    /// The refusal.
    pub(super) async fn require_administrator(&self, name: Option<String>) -> Result<(), Answer> {
        if !self.rules().authorization {
            return Ok(());
        }
        let Some(name) = name else {
            let why = "Unauthenticated users are not authorized to access this page.\n";
            return Err(text(StatusCode::FORBIDDEN, why));
        };
        if self.is_administrator(name.clone()).await {
            return Ok(());
        }
        let why = format!("User {name} is unauthorized to access this page.\n");
        Err(text(StatusCode::FORBIDDEN, why))
    }

    async fn is_administrator(&self, name: String) -> bool {
        let groups_matter = self.rules().administrators.names_groups();
        let user = self.user(name, groups_matter).await;
        self.rules().is_administrator(&user)
    }

    async fn user(&self, name: String, groups_matter: bool) -> User {
        if groups_matter {
            self.groups.user(name).await
        } else {
            User {
                name,
                groups: Vec::new(),
            }
        }
    }
}

/// Answers a request without a name where each must have one (Hadoop:
/// `PseudoAuthenticationHandler`).
fn nameless() -> Answer {
    let why = "Authentication required: give your name as the parameter user.name.\n";
    let mut refusal = text(StatusCode::UNAUTHORIZED, why);
    let scheme = HeaderValue::from_static("PseudoAuth");
    refusal
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, scheme);
    last(refusal)
}

/// Answers a request for what only administrators may see; the live page is replaced by the page of
/// the node, which names no application.
pub(super) fn only_for_administrators(path: &[&str]) -> Answer {
    if path.is_empty() {
        return redirect("/node");
    }
    let why = "Only administrators may see the applications of all users.\n";
    text(StatusCode::FORBIDDEN, why)
}
