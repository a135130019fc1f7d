//! The reader of a page or document, with what the reader may see of it. Pure.

use std::sync::Arc;

use access_control::{AccessList, AccessRules, User};
use node_view::snapshot::{ApplicationSnapshot, ContainerSnapshot, NodeSnapshot};

/// A reader, and the rules of the node.
#[derive(Clone, Debug, Default)]
pub(super) struct Viewer {
    rules: Arc<AccessRules>,
    /// `None`: anonymous.
    user: Option<User>,
}

impl Viewer {
    pub(super) fn new(rules: Arc<AccessRules>, user: Option<User>) -> Self {
        Self { rules, user }
    }

    /// Name for texts.
    pub(super) fn name(&self) -> &str {
        self.user.as_ref().map_or("anonymous", |user| &user.name)
    }

    /// Whether the reader may see what the application's containers wrote.
    pub(super) fn may_view(&self, app: &ApplicationSnapshot) -> bool {
        let user = self.user.as_ref();
        self.rules.may_view(user, &app.user, &app.view_acl)
    }

    /// Whether lists name the application.
    pub(super) fn lists(&self, app: &ApplicationSnapshot) -> bool {
        !self.rules.filter_lists || self.may_view(app)
    }

    /// Whether lists name the container. One whose application is gone is finished, and only its
    /// user and administrators see it.
    pub(super) fn lists_container(
        &self,
        node: &NodeSnapshot,
        container: &ContainerSnapshot,
    ) -> bool {
        !self.rules.filter_lists || self.may_view_container(node, container)
    }

    /// Returns a container's diagnostics, which hold what it wrote last; empty for a reader who may
    /// not see that.
    pub(super) fn diagnostics<'a>(
        &self,
        node: &NodeSnapshot,
        container: &'a ContainerSnapshot,
    ) -> &'a str {
        if self.may_view_container(node, container) {
            &container.diagnostics
        } else {
            ""
        }
    }

    /// Whether the reader may see what the container wrote.
    pub(super) fn may_view_container(
        &self,
        node: &NodeSnapshot,
        container: &ContainerSnapshot,
    ) -> bool {
        let user = self.user.as_ref();
        match node.application(&container.id.application_id()) {
            Some(app) => self.may_view(app),
            None => self
                .rules
                .may_view(user, &container.user, &AccessList::default()),
        }
    }
}
