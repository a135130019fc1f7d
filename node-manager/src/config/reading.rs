//! Two readings of a configuration, compared by property.

use std::collections::BTreeSet;
use std::sync::Arc;

use hadoop_conf::Secrets;
use hadoop_conf::site_xml::Properties;

/// Shown in place of a value that must not be seen.
const HIDDEN: &str = "(hidden)";

/// Properties as they were read once, and which of them the agent asked for.
#[derive(Clone, Debug)]
pub struct Reading {
    properties: Arc<Properties>,
    asked: Arc<BTreeSet<String>>,
    secrets: Secrets,
    /// Whether a folder had a `yarn-site.xml`.
    pub has_yarn_site: bool,
}

/// Property whose values differ between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedProperty {
    /// Name of the property.
    pub name: String,
    /// Earlier value for people; `None`: unset.
    pub old: Option<String>,
    /// Later value for people; `None`: unset.
    pub new: Option<String>,
}

impl Reading {
    pub(super) fn new(
        properties: Properties,
        asked: BTreeSet<String>,
        secrets: Secrets,
        has_yarn_site: bool,
    ) -> Self {
        Self {
            properties: Arc::new(properties),
            asked: Arc::new(asked),
            secrets,
            has_yarn_site,
        }
    }

    /// Returns the properties that either reading asked for and whose values differ, in the order
    /// of their names.
    #[must_use]
    pub fn changes_to(&self, later: &Self) -> Vec<ChangedProperty> {
        let names: BTreeSet<&String> = self.asked.union(&later.asked).collect();
        let changed = names
            .into_iter()
            .filter(|name| self.text(name) != later.text(name));
        let change = |name: &String| ChangedProperty {
            name: name.clone(),
            old: self.shown(name),
            new: later.shown(name),
        };
        changed.map(change).collect()
    }

    /// Returns the expanded value. One that cannot be expanded makes the configuration invalid, so
    /// it is never compared.
    fn text(&self, name: &str) -> Option<String> {
        let value = self.properties.get(name).ok()??;
        Some(value.text)
    }

    fn shown(&self, name: &str) -> Option<String> {
        let value = self.properties.get(name).ok()??;
        if self.secrets.hides(name, &value) {
            return Some(HIDDEN.to_owned());
        }
        Some(value.text)
    }
}
