//! Containers of an earlier agent, which may have ended between an order and any of its effects.

use super::action::Adopted;
use super::container::other;
use super::{FreezeReason, State};

impl State {
    /// Takes over a container: nothing is believed of its limits, so all are written; processes in
    /// the class that it has left are moved, and those that nobody wants frozen are thawed.
    pub(super) fn adopt(&mut self, adopted: Adopted) {
        let Adopted {
            spec,
            is_in_class,
            is_in_other,
            is_frozen,
        } = adopted;
        self.announce(spec);
        let wanted = spec.execution_type;
        let class = if is_in_class { wanted } else { other(wanted) };
        let has_former = is_in_class && is_in_other;
        let Some(container) = self.containers.get_mut(&spec.id) else {
            return;
        };
        container.class = Some(class);
        container.has_former = has_former;
        container.outdated = true;
        let groups = container.groups();
        if !is_frozen {
            self.set_frozen(spec.id, groups, false, FreezeReason::Adopt);
        }
        self.count(spec.id, self.rules.share(&spec, class, 0));
        if has_former {
            // Limits follow when everybody has been moved.
            self.begin_moving(spec.id);
        } else {
            self.reconcile(spec.id);
        }
    }
}
