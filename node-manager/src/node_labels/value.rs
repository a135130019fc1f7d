//! Labels and attributes of a node, and the texts that name them in the configuration and in the
//! output of scripts (Hadoop: `NodeLabelUtil`, `ConfigurationNodeAttributesProvider`,
//! `ScriptBasedNodeLabelsProvider`, `ScriptBasedNodeAttributesProvider`).

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;
use wire::proto::hadoop_yarn::{
    NodeAttributeKeyProto, NodeAttributeProto, NodeAttributeTypeProto, NodeAttributesProto,
    NodeLabelProto, NodeLabelsProto,
};

/// Limit on the characters of a label, and of an attribute's name and value.
const LENGTH_MAX: usize = 255;

/// Begin of a script's line with the node's label.
const PARTITION: &str = "NODE_PARTITION:";

/// Begin of a script's line with an attribute.
const ATTRIBUTE: &str = "NODE_ATTRIBUTE:";

/// Prefix of attributes that a node gives itself (Hadoop: `NodeAttribute.PREFIX_DISTRIBUTED`). A
/// ResourceManager refuses others.
const PREFIX: &str = "nm.yarn.io";

/// The only type of attributes.
const STRING: &str = "STRING";

/// Why a text names no labels or attributes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ValueError {
    /// A name or value of other characters, or of too many, or none.
    #[error(
        "{what} {text:?} must be 1 to {LENGTH_MAX} characters of 0-9, a-z, A-Z, - and _, \
         beginning with a letter or digit{and_dots}"
    )]
    Characters {
        /// Part that the text stands for.
        what: &'static str,
        /// The text, cut to the limit.
        text: String,
        /// Addition where dots are allowed.
        and_dots: &'static str,
    },
    /// An attribute that is not made of three parts.
    #[error("{0:?} is not NAME,TYPE,VALUE")]
    Parts(String),
    /// An attribute of an unknown type.
    #[error("the type of attribute {0:?} is not STRING")]
    Type(String),
    /// Two attributes of one name.
    #[error("attribute {0:?} is there twice")]
    Twice(String),
}

/// Labels or attributes of a node.
pub trait Described: Clone + Eq + fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// Word for log lines.
    const WHAT: &'static str;

    /// Returns the value of a property; an unset one is empty.
    ///
    /// # Errors
    /// [`ValueError`] when the text is not of Hadoop's form.
    fn from_property(text: &str) -> Result<Self, ValueError>;

    /// Returns what a script printed; other lines are passed over.
    ///
    /// # Errors
    /// [`ValueError`] when a line of its own is not of Hadoop's form.
    fn from_output(text: &str) -> Result<Self, ValueError>;
}

/// Labels of a node: its partition, or none. Hadoop allows one at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLabels(Option<String>);

impl fmt::Display for NodeLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or_default())
    }
}

impl Described for NodeLabels {
    const WHAT: &'static str = "node labels";

    fn from_property(text: &str) -> Result<Self, ValueError> {
        match text.trim() {
            "" => Ok(Self(None)),
            label => Ok(Self(Some(checked("label", label, "")?))),
        }
    }

    fn from_output(text: &str) -> Result<Self, ValueError> {
        // The last line counts, as in Hadoop.
        let mut lines = text.lines().rev();
        let label = lines.find_map(|line| line.trim().strip_prefix(PARTITION));
        label.map_or(Ok(Self(None)), |label| {
            Ok(Self(Some(checked("label", label.trim(), "")?)))
        })
    }
}

impl From<NodeLabels> for NodeLabelsProto {
    fn from(labels: NodeLabels) -> Self {
        // The ResourceManager has its own word on whether a label is exclusive; a Java NodeManager
        // sends the default.
        let label = |name| NodeLabelProto {
            name: Some(name),
            is_exclusive: Some(true),
        };
        Self {
            node_labels: labels.0.into_iter().map(label).collect(),
        }
    }
}

/// Attributes of a node, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAttributes(BTreeMap<String, String>);

impl NodeAttributes {
    /// Adds `NAME,TYPE,VALUE`.
    fn add(&mut self, text: &str) -> Result<(), ValueError> {
        let parts: Vec<_> = text.split(',').map(str::trim).collect();
        let [name, kind, value] = parts[..] else {
            return Err(ValueError::Parts(cut(text)));
        };
        let name = checked("attribute name", name, "")?;
        if kind != STRING {
            return Err(ValueError::Type(name));
        }
        let value = checked("attribute value", value, "; dots may follow")?;
        match self.0.insert(name.clone(), value) {
            Some(_) => Err(ValueError::Twice(name)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for NodeAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{PREFIX}/{name}({STRING})={value}")?;
        }
        Ok(())
    }
}

impl Described for NodeAttributes {
    const WHAT: &'static str = "node attributes";

    fn from_property(text: &str) -> Result<Self, ValueError> {
        let mut attributes = Self::default();
        if !text.trim().is_empty() {
            for attribute in text.split(':') {
                attributes.add(attribute)?;
            }
        }
        Ok(attributes)
    }

    fn from_output(text: &str) -> Result<Self, ValueError> {
        let mut attributes = Self::default();
        for line in text.lines() {
            if let Some(attribute) = line.trim().strip_prefix(ATTRIBUTE) {
                attributes.add(attribute)?;
            }
        }
        Ok(attributes)
    }
}

impl From<NodeAttributes> for NodeAttributesProto {
    fn from(attributes: NodeAttributes) -> Self {
        let attribute = |(name, value)| NodeAttributeProto {
            attribute_key: NodeAttributeKeyProto {
                attribute_prefix: Some(PREFIX.to_owned()),
                attribute_name: name,
            },
            attribute_type: Some(NodeAttributeTypeProto::String.into()),
            attribute_value: Some(value),
        };
        Self {
            node_attributes: attributes.0.into_iter().map(attribute).collect(),
        }
    }
}

/// Returns a text that Hadoop accepts as a label, name or value.
fn checked(what: &'static str, text: &str, and_dots: &'static str) -> Result<String, ValueError> {
    let is_inner = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || (c == '.' && !and_dots.is_empty())
    };
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins_well && text.len() <= LENGTH_MAX && text.chars().all(is_inner) {
        return Ok(text.to_owned());
    }
    let text = cut(text);
    Err(ValueError::Characters {
        what,
        text,
        and_dots,
    })
}

/// Cuts a text for a message.
fn cut(text: &str) -> String {
    text.chars().take(LENGTH_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(name: &str) -> NodeLabels {
        NodeLabels(Some(name.to_owned()))
    }

    fn attributes(pairs: &[(&str, &str)]) -> NodeAttributes {
        let pairs = pairs.iter();
        NodeAttributes(
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn the_last_partition_of_an_output_is_the_label() {
        let output = "debug\n NODE_PARTITION:old \nNODE_PARTITION:gpu\nNODE_ATTRIBUTE:a,STRING,b\n";
        assert_eq!(NodeLabels::from_output(output), Ok(labels("gpu")));
        assert_eq!(NodeLabels::from_output("gpu\n"), Ok(NodeLabels(None)));
    }

    #[test]
    fn a_property_names_a_label_or_none() {
        assert_eq!(NodeLabels::from_property(" gpu-1 "), Ok(labels("gpu-1")));
        assert_eq!(NodeLabels::from_property(" "), Ok(NodeLabels(None)));
    }

    #[test]
    fn labels_have_hadoops_characters() {
        let longest = "a".repeat(LENGTH_MAX);
        for good in ["a", "0", "A-_9", &longest] {
            assert_eq!(NodeLabels::from_property(good), Ok(labels(good)));
        }
        let too_long = "a".repeat(LENGTH_MAX + 1);
        for bad in ["-a", "_a", "a.b", "a b", "ä", "a,b", &too_long] {
            let error = NodeLabels::from_property(bad).unwrap_err();
            assert!(matches!(error, ValueError::Characters { .. }), "{error}");
        }
        assert!(NodeLabels::from_output("NODE_PARTITION:").is_err());
    }

    #[test]
    fn attributes_are_read_from_property_and_output_alike() {
        let expected = attributes(&[("os", "Linux-6.1"), ("rack_unit", "7")]);
        let property = "os,STRING,Linux-6.1:rack_unit,STRING,7";
        assert_eq!(
            NodeAttributes::from_property(property),
            Ok(expected.clone())
        );
        let output = "x\nNODE_ATTRIBUTE:rack_unit,STRING,7\n NODE_ATTRIBUTE:os,STRING,Linux-6.1";
        assert_eq!(NodeAttributes::from_output(output), Ok(expected.clone()));
        assert_eq!(
            expected.to_string(),
            "nm.yarn.io/os(STRING)=Linux-6.1,nm.yarn.io/rack_unit(STRING)=7"
        );
        assert_eq!(NodeAttributes::from_property(""), Ok(attributes(&[])));
        assert_eq!(NodeAttributes::from_output("x"), Ok(attributes(&[])));
    }

    #[test]
    fn attributes_of_another_form_are_refused() {
        let error = |text| NodeAttributes::from_property(text).unwrap_err();
        assert_eq!(error("a,STRING"), ValueError::Parts("a,STRING".to_owned()));
        let four = "a,STRING,b,c";
        assert_eq!(error(four), ValueError::Parts(four.to_owned()));
        assert_eq!(error("a,string,b"), ValueError::Type("a".to_owned()));
        let twice = "a,STRING,b:a,STRING,c";
        assert_eq!(error(twice), ValueError::Twice("a".to_owned()));
        for bad in [
            "nm.yarn.io/a,STRING,b",
            "a.b,STRING,c",
            "a,STRING,",
            ",STRING,b",
        ] {
            let error = error(bad);
            assert!(matches!(error, ValueError::Characters { .. }), "{error}");
        }
    }

    #[test]
    fn the_wire_has_names_prefix_and_type() {
        let proto = NodeLabelsProto::from(labels("gpu"));
        assert_eq!(proto.node_labels[0].name.as_deref(), Some("gpu"));
        assert!(
            NodeLabelsProto::from(NodeLabels(None))
                .node_labels
                .is_empty()
        );
        let proto = NodeAttributesProto::from(attributes(&[("os", "Linux")]));
        let attribute = &proto.node_attributes[0];
        assert_eq!(attribute.attribute_key.attribute_prefix(), PREFIX);
        assert_eq!(attribute.attribute_key.attribute_name, "os");
        assert_eq!(attribute.attribute_type(), NodeAttributeTypeProto::String);
        assert_eq!(attribute.attribute_value(), "Linux");
    }
}
