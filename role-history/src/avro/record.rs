//! Records of the schema and their JSON form.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Namespaces of the records: of Slider, and of Hoya, as it was called in 2013.
pub(super) const NAMESPACES: [&str; 2] =
    ["org.apache.slider.server.avro.", "org.apache.hoya.avro."];

/// Names of the records without namespace.
pub(super) mod names {
    pub(in crate::avro) const HEADER: &str = "RoleHistoryHeader";
    pub(in crate::avro) const MAPPING: &str = "RoleHistoryMapping";
    pub(in crate::avro) const NODE_ENTRY: &str = "NodeEntryRecord";
    pub(in crate::avro) const FOOTER: &str = "RoleHistoryFooter";
}

/// First record of a history (Slider: `RoleHistoryHeader`). The fields are in the schema's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) version: i32,
    /// Milliseconds since the epoch.
    pub(super) saved: i64,
    /// Lower-case hexadecimal digits of `saved`, without padding.
    pub(super) savedx: String,
    /// Text of `saved` for people, absent in the oldest files.
    #[serde(default)]
    pub(super) savedate: String,
    pub(super) roles: i32,
}

/// Numbers of the roles by name (Slider: `RoleHistoryMapping`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mapping {
    pub(super) rolemap: BTreeMap<String, i32>,
}

/// Entry of a role on a node (Slider: `NodeEntryRecord`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeEntryRecord<'a> {
    #[serde(borrow)]
    pub(super) host: Cow<'a, str>,
    pub(super) role: i32,
    pub(super) active: bool,
    pub(super) last_used: i64,
}

/// Last record of a history (Slider: `RoleHistoryFooter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Footer {
    pub(super) count: i64,
}

/// Union of the records (Slider: `RoleHistoryRecord.entry`). In JSON an object with one key, the
/// full name of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Header(Header),
    Mapping(Mapping),
    OfNode(NodeEntryRecord<'a>),
    Footer(Footer),
    /// Record of a type that this version does not know. Skipped, so that older readers cope with
    /// newer files.
    Unknown,
}

/// Object around each record. Unknown fields are ignored here and in every record.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Record<'a> {
    #[serde(borrow)]
    pub(super) entry: Entry<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Entry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Union;

        impl<'de> Visitor<'de> for Union {
            type Value = Entry<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with the name of a record as its only key")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let Some(name) = map.next_key::<Cow<'de, str>>()? else {
                    return Err(de::Error::invalid_length(0, &self));
                };
                let prefix = NAMESPACES.iter().find(|&&prefix| name.starts_with(prefix));
                let entry = match prefix.map_or("", |prefix| &name[prefix.len()..]) {
                    names::HEADER => Entry::Header(map.next_value()?),
                    names::MAPPING => Entry::Mapping(map.next_value()?),
                    names::NODE_ENTRY => Entry::OfNode(map.next_value()?),
                    names::FOOTER => Entry::Footer(map.next_value()?),
                    _ => {
                        map.next_value::<IgnoredAny>()?;
                        Entry::Unknown
                    }
                };
                if map.next_key::<IgnoredAny>()?.is_some() {
                    return Err(de::Error::invalid_length(2, &self));
                }
                Ok(entry)
            }
        }

        deserializer.deserialize_map(Union)
    }
}
