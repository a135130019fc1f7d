//! Hosts in Hadoop's form: addresses, ranges and names (Hadoop: `MachineList`). Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use thiserror::Error;

/// Limit on the entries of a list. Names among them cost a look-up each.
const ENTRIES_MAX: usize = 1024;

/// Addresses of names, as far as the name service told them: a name without an entry is one of
/// which nothing is known at the moment, and a name with no address does not exist.
pub(crate) type KnownNames = BTreeMap<String, Vec<IpAddr>>;

/// Machines of a list: everything (`*` alone), or addresses, ranges such as `10.1.0.0/16`, and
/// names, with commas between. Empty by default: no machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineList {
    everything: bool,
    addresses: BTreeSet<IpAddr>,
    ranges: Vec<Range>,
    names: BTreeSet<String>,
}

/// Reason for which a text is no list of machines.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MachineListError {
    /// Entry with a `/` that is no range.
    #[error("{0} is no range of addresses, such as 10.1.0.0/16")]
    Range(String),
    /// More entries than are compared with each caller.
    #[error("{0} entries are more than {ENTRIES_MAX}")]
    TooMany(usize),
}

/// Whether a list includes an address, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inclusion {
    Included,
    Excluded,
    /// A name of the list could not be looked up.
    Unknown,
}

impl MachineList {
    /// Returns the list that includes every machine.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }

    /// Reads a list. `*` beside other entries means nothing, as in Hadoop.
    ///
    /// # Errors
    /// [`MachineListError`]. Hadoop's node does not start with a wrong range either.
    pub fn parse(text: &str) -> Result<Self, MachineListError> {
        let entries: Vec<&str> = text
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty())
            .collect();
        if entries == ["*"] {
            return Ok(Self::everything());
        }
        if entries.len() > ENTRIES_MAX {
            return Err(MachineListError::TooMany(entries.len()));
        }
        let mut list = Self::default();
        for entry in entries.into_iter().filter(|entry| *entry != "*") {
            if entry.contains('/') {
                let range = Range::parse(entry);
                let wrong = || MachineListError::Range(entry.chars().take(100).collect());
                list.ranges.push(range.ok_or_else(wrong)?);
            } else if let Ok(address) = entry.parse::<IpAddr>() {
                list.addresses.insert(address.to_canonical());
            } else {
                list.names.insert(entry.to_owned());
            }
        }
        Ok(list)
    }

    /// Returns whether the list includes every machine.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.everything
    }

    /// Iterates over the names of hosts whose addresses decide about this one; none if the rest of
    /// the list has decided.
    pub(crate) fn undecided_names(&self, address: IpAddr) -> impl Iterator<Item = &str> {
        let is_decided = self.includes_without_names(address);
        let names = self.names.iter().filter(move |_| !is_decided);
        names.map(String::as_str)
    }

    /// Returns whether the list includes an address.
    pub(crate) fn includes(&self, address: IpAddr, known: &KnownNames) -> Inclusion {
        if self.includes_without_names(address) {
            return Inclusion::Included;
        }
        let mut inclusion = Inclusion::Excluded;
        for name in &self.names {
            match known.get(name) {
                Some(addresses) => {
                    let mut addresses = addresses.iter().map(IpAddr::to_canonical);
                    if addresses.any(|one| one == address.to_canonical()) {
                        return Inclusion::Included;
                    }
                }
                None => inclusion = Inclusion::Unknown,
            }
        }
        inclusion
    }

    fn includes_without_names(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.everything
            || self.addresses.contains(&address)
            || self.ranges.iter().any(|range| range.includes(address))
    }
}

/// Addresses whose first bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    base: IpAddr,
    /// Number of bits, at most 32 or 128.
    bits: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (base, bits) = text.split_once('/')?;
        let base: IpAddr = base.trim().parse().ok()?;
        let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u32 = is_number.then(|| bits.parse().ok())??;
        let max = if base.is_ipv4() { 32 } else { 128 };
        (bits <= max).then_some(Self { base, bits })
    }

    fn includes(self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let differing = base.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= self.bits
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let differing = base.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= self.bits
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(text: &str) -> MachineList {
        MachineList::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn includes(text: &str, address: &str) -> Inclusion {
        let known = [("nm1.example.com", vec!["10.1.2.3"]), ("gone", vec![])];
        let known = known.map(|(name, addresses)| {
            let parsed = addresses.iter().map(|text| text.parse().expect(text));
            (name.to_owned(), parsed.collect())
        });
        list(text).includes(address.parse().expect(address), &known.into())
    }

    #[test]
    fn addresses_ranges_and_names_include_theirs_and_nothing_else() {
        use Inclusion::{Excluded, Included, Unknown};
        for (text, address, expected) in [
            ("*", "10.1.2.3", Included),
            (" * ", "::1", Included),
            ("", "10.1.2.3", Excluded),
            (" , ", "10.1.2.3", Excluded),
            ("10.1.2.3", "10.1.2.3", Included),
            ("10.1.2.3", "::ffff:10.1.2.3", Included),
            ("10.1.2.3", "10.1.2.30", Excluded),
            ("10.0.0.1, 10.1.2.3", "10.1.2.3", Included),
            ("10.1.0.0/16", "10.1.255.255", Included),
            ("10.1.0.0/16", "10.2.0.0", Excluded),
            ("10.1.2.3/32", "10.1.2.3", Included),
            ("10.1.2.3/32", "10.1.2.2", Excluded),
            ("0.0.0.0/0", "192.168.7.7", Included),
            ("0.0.0.0/0", "fe80::1", Excluded),
            ("fd00::/8", "fd12::1", Included),
            ("fd00::/8", "fe80::1", Excluded),
            ("nm1.example.com", "10.1.2.3", Included),
            ("nm1.example.com", "10.1.2.4", Excluded),
            ("gone", "10.1.2.3", Excluded),
            ("unanswered", "10.1.2.3", Unknown),
            ("unanswered,10.1.2.3", "10.1.2.3", Included),
            ("unanswered,nm1.example.com", "10.1.2.3", Included),
            // Hadoop takes the star for everything where it stands alone.
            ("*,10.1.2.3", "10.9.9.9", Excluded),
        ] {
            assert_eq!(includes(text, address), expected, "{text:?} {address}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "10.1.0.0/33",
            "10.1.0.0/",
            "10.1.0.0/+8",
            "/8",
            "host/8",
            "fd00::/129",
            "10.1.0.0/255.255.0.0",
            "10.1.0.0/99999999999",
        ] {
            let expected = Err(MachineListError::Range(text.to_owned()));
            assert_eq!(MachineList::parse(text), expected);
        }
        let many = vec!["a"; ENTRIES_MAX + 1].join(",");
        let expected = Err(MachineListError::TooMany(ENTRIES_MAX + 1));
        assert_eq!(MachineList::parse(&many), expected);
    }

    #[test]
    fn names_are_wanted_only_where_the_rest_has_not_decided() {
        let wanted = |text: &str| {
            let list = list(text);
            let address = "10.1.2.3".parse().expect("an address");
            list.undecided_names(address).count()
        };
        assert_eq!(wanted("10.0.0.0/8,a,b"), 0);
        assert_eq!(wanted("10.9.0.0/16,a,b"), 2);
        assert_eq!(wanted("*"), 0);
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_refused(text in ".{0,200}", address: u32) {
            if let Ok(list) = MachineList::parse(&text) {
                let address = IpAddr::V4(address.into());
                let _ = list.includes(address, &KnownNames::new());
            }
        }

        #[test]
        fn a_range_includes_what_begins_with_its_bits(base: u32, bits in 0_u32..=32, other: u32) {
            let text = format!("{}/{bits}", std::net::Ipv4Addr::from(base));
            let same = bits == 0 || base >> (32 - bits) == other >> (32 - bits);
            let included = list(&text).includes(IpAddr::V4(other.into()), &KnownNames::new());
            prop_assert_eq!(included == Inclusion::Included, same);
        }
    }
}
