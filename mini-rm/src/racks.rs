//! Rack of each node, read from Hadoop's table file (`org.apache.hadoop.net.TableMapping`).
//! Topology scripts are not run; without a table every node is in the default rack, as in Hadoop.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::nodes::DEFAULT_RACK;

/// Racks by host name or address, as in the table file. Empty without a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Racks(BTreeMap<String, String>);

impl Racks {
    /// Reads lines of two columns: a host's name or address, and its rack. Skips empty lines and
    /// comments (`#`). Skips any other line with a warning, as Hadoop does.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut racks = BTreeMap::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let columns: Vec<&str> = line.split_whitespace().collect();
            match columns.as_slice() {
                [host, rack] if rack.starts_with('/') => {
                    racks.insert((*host).to_owned(), (*rack).to_owned());
                }
                _ => tracing::warn!(line, "skipping a line that is not a host and a rack"),
            }
        }
        Self(racks)
    }

    /// Returns the rack of a node that registers under this name from this address. Hadoop looks up
    /// the address only; its manual allows names in the table too, so the name is tried first.
    #[must_use]
    pub fn of(&self, host: &str, address: IpAddr) -> &str {
        let rack = self.0.get(host);
        let rack = rack.or_else(|| self.0.get(&address.to_canonical().to_string()));
        rack.map_or(DEFAULT_RACK, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn a_node_is_found_by_its_name_or_else_its_address() {
        let racks = Racks::parse("# ours\n\n  n1\t/r1 \n10.0.0.1 /dc/r2\n");
        assert_eq!(racks.of("n1", ADDRESS), "/r1");
        assert_eq!(racks.of("n2", ADDRESS), "/dc/r2");
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(racks.of("n2", mapped), "/dc/r2");
    }

    #[test]
    fn what_is_not_in_the_table_is_in_the_default_rack() {
        let racks = Racks::parse("n1\nn1 r1\nn1 /r1 more\n");
        assert_eq!(racks, Racks::default());
        assert_eq!(racks.of("n1", ADDRESS), "/default-rack");
    }
}
