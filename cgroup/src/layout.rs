//! The cgroup hierarchies of this machine and this process's cgroup in each, parsed from
//! `/proc/self/mountinfo` and `/proc/self/cgroup`. Nothing is opened here.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::dir::unescaped;

/// Limit on the lines read of `mountinfo`. A machine full of container images has thousands.
const MOUNTS_MAX: usize = 100_000;

/// A cgroup controller, or on v1 a pseudo-controller such as the freezer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// CPU time by weight and quota.
    Cpu,
    /// CPU accounting (v1 only; on v2 every cgroup counts CPU time).
    Cpuacct,
    /// Memory and swap.
    Memory,
    /// Number of tasks.
    Pids,
    /// Block devices: `io` on v2, `blkio` on v1.
    Io,
    /// Freezing (v1 only; on v2 every cgroup can be frozen).
    Freezer,
}

impl Controller {
    /// Every controller, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Cpu,
        Self::Cpuacct,
        Self::Memory,
        Self::Pids,
        Self::Io,
        Self::Freezer,
    ];

    /// Returns the controller's name in v1's mount options.
    #[must_use]
    pub const fn v1_name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Io => "blkio",
            Self::Freezer => "freezer",
        }
    }

    /// Returns the controller's name in `cgroup.controllers`; `None` if it is part of every v2
    /// cgroup.
    #[must_use]
    pub const fn v2_name(self) -> Option<&'static str> {
        match self {
            Self::Cpu => Some("cpu"),
            Self::Memory => Some("memory"),
            Self::Pids => Some("pids"),
            Self::Io => Some("io"),
            Self::Cpuacct | Self::Freezer => None,
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.v2_name().unwrap_or(self.v1_name()))
    }
}

/// A mounted hierarchy of either version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Mount point, absolute.
    pub mount: PathBuf,
    /// This process's cgroup, relative to the mount point; empty at its top. `None` if outside what
    /// is mounted.
    pub own: Option<PathBuf>,
}

/// A mounted hierarchy of version 1 with its controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyHierarchy {
    /// Controllers mounted here; never empty.
    pub controllers: BTreeSet<Controller>,
    /// Mount point and own cgroup.
    pub hierarchy: Hierarchy,
}

/// The cgroup versions that a host mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// No hierarchy.
    None,
    /// Only hierarchies of version 1.
    V1,
    /// Only the unified hierarchy.
    V2,
    /// Hierarchies of version 1 and the unified hierarchy.
    Hybrid,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::Hybrid => "hybrid",
        })
    }
}

/// The hierarchies mounted on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Hierarchy of version 2.
    pub unified: Option<Hierarchy>,
    /// Hierarchies of version 1, in the order mounted; each controller appears at most once.
    pub legacy: Vec<LegacyHierarchy>,
}

impl Layout {
    /// Parses `/proc/self/mountinfo` and `/proc/self/cgroup`. Malformed lines are skipped.
    #[must_use]
    pub fn parse(mountinfo: &str, own: &str) -> Self {
        let mut layout = Self::default();
        for line in mountinfo.lines().take(MOUNTS_MAX) {
            let Some(mount) = Mount::parse(line) else {
                continue;
            };
            match mount.kind {
                "cgroup2" if layout.unified.is_none() => {
                    layout.unified = Some(mount.hierarchy(own_unified(own)));
                }
                "cgroup" => layout.add_legacy(&mount, own),
                _ => {}
            }
        }
        layout
    }

    /// Reads the layout that this process sees. Without `/proc` it is empty.
    #[must_use]
    pub fn of_this_process() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    /// Adds the controllers of a v1 mount that no earlier mount has. In containers a hierarchy is
    /// often mounted twice; the first mount wins, as with the kernel's own tools.
    fn add_legacy(&mut self, mount: &Mount<'_>, own: &str) {
        let options: BTreeSet<&str> = mount.super_options.split(',').collect();
        let known = |controller: &Controller| {
            self.legacy
                .iter()
                .any(|legacy| legacy.controllers.contains(controller))
        };
        let controllers: BTreeSet<Controller> = Controller::ALL
            .into_iter()
            .filter(|controller| options.contains(controller.v1_name()) && !known(controller))
            .collect();
        let Some(any) = controllers.first() else {
            return;
        };
        let hierarchy = mount.hierarchy(own_legacy(own, *any));
        self.legacy.push(LegacyHierarchy {
            controllers,
            hierarchy,
        });
    }

    /// Returns which cgroup versions are mounted.
    #[must_use]
    pub fn version(&self) -> Version {
        match (&self.unified, self.legacy.is_empty()) {
            (None, true) => Version::None,
            (None, false) => Version::V1,
            (Some(_), true) => Version::V2,
            (Some(_), false) => Version::Hybrid,
        }
    }

    /// Returns the layout with only the hierarchies mounted below `path`.
    #[must_use]
    pub fn mounted_below(mut self, path: &Path) -> Self {
        self.unified = self
            .unified
            .filter(|unified| unified.mount.starts_with(path));
        self.legacy
            .retain(|legacy| legacy.hierarchy.mount.starts_with(path));
        self
    }

    /// Returns the layout without the unified hierarchy.
    #[must_use]
    pub fn without_unified(mut self) -> Self {
        self.unified = None;
        self
    }

    /// Returns the layout with every mount point moved below `root`, so that ordinary directories
    /// can replace hierarchies in tests.
    #[must_use]
    pub fn below(mut self, root: &Path) -> Self {
        let moved = |hierarchy: &mut Hierarchy| {
            let relative = hierarchy.mount.strip_prefix("/");
            hierarchy.mount = root.join(relative.unwrap_or(&hierarchy.mount));
        };
        self.unified.iter_mut().for_each(moved);
        self.legacy
            .iter_mut()
            .for_each(|legacy| moved(&mut legacy.hierarchy));
        self
    }
}

/// The used fields of a line of `mountinfo` (proc(5)).
struct Mount<'a> {
    root: PathBuf,
    point: PathBuf,
    kind: &'a str,
    super_options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        // Optional fields come between the mount options and a lone hyphen.
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let mut after = after.split(' ');
        let kind = after.next()?;
        let super_options = after.nth(1)?;
        Some(Self {
            root: unescaped(root),
            point: unescaped(point),
            kind,
            super_options,
        })
    }

    /// Makes a [`Hierarchy`]. `own` is relative to the hierarchy's own top; the mount may show only
    /// a part of it, as in a container.
    fn hierarchy(&self, own: Option<&str>) -> Hierarchy {
        let own = own.and_then(|own| Path::new(own).strip_prefix(&self.root).ok());
        Hierarchy {
            mount: self.point.clone(),
            own: own.map(Path::to_path_buf),
        }
    }
}

/// Returns the path in the line `0::PATH`.
fn own_unified(own: &str) -> Option<&str> {
    own.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Returns the path in the line `ID:CONTROLLER,CONTROLLER:PATH` that lists the controller.
fn own_legacy(own: &str, controller: Controller) -> Option<&str> {
    own.lines().find_map(|line| {
        let (_id, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let mut names = controllers.split(',');
        names
            .any(|name| name == controller.v1_name())
            .then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const V2: &str = "25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
        30 25 0:27 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
    const V1: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";
    const UNIFIED: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_unified_host_has_its_own_path_below_the_mount() {
        let layout = Layout::parse(V2, "0::/system.slice/nm-agent.service\n");
        let unified = layout.unified.clone().unwrap();
        assert_eq!(unified.mount, Path::new("/sys/fs/cgroup"));
        assert_eq!(
            unified.own.as_deref(),
            Some(Path::new("system.slice/nm-agent.service"))
        );
        assert_eq!(layout.version(), Version::V2);
    }

    #[test]
    fn a_legacy_host_has_one_hierarchy_per_mount_and_named_ones_are_left_out() {
        let own = "9:name=systemd:/\n4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/\n";
        let layout = Layout::parse(V1, own);
        assert_eq!(layout.version(), Version::V1);
        let seen: Vec<_> = layout
            .legacy
            .iter()
            .map(|legacy| {
                let own = legacy.hierarchy.own.clone().unwrap();
                (legacy.controllers.iter().copied().collect::<Vec<_>>(), own)
            })
            .collect();
        assert_eq!(
            seen,
            [
                (
                    vec![Controller::Cpu, Controller::Cpuacct],
                    PathBuf::from("c")
                ),
                (vec![Controller::Memory], PathBuf::from("a/b")),
            ]
        );
    }

    #[test]
    fn both_at_once_are_hybrid_and_none_is_none() {
        let both = V1.to_owned() + UNIFIED;
        assert_eq!(Layout::parse(&both, "").version(), Version::Hybrid);
        assert_eq!(Layout::parse("", "").version(), Version::None);
        let only = Layout::parse(&both, "").without_unified();
        assert_eq!(only.version(), Version::V1);
    }

    #[test]
    fn in_a_container_the_own_path_is_relative_to_what_is_mounted() {
        let line =
            "30 25 0:27 /docker/abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n";
        let own = |text| Layout::parse(line, text).unified.unwrap().own;
        assert_eq!(own("0::/docker/abc/x\n"), Some(PathBuf::from("x")));
        assert_eq!(own("0::/docker/abc\n"), Some(PathBuf::new()));
        assert_eq!(own("0::/elsewhere\n"), None);
    }

    #[test]
    fn of_two_mounts_of_a_controller_the_first_counts() {
        let twice = V1.to_owned() + "50 1 0:32 / /mnt/memory rw - cgroup cgroup rw,memory\n";
        let layout = Layout::parse(&twice, "");
        let memory = layout
            .legacy
            .iter()
            .filter(|legacy| legacy.controllers.contains(&Controller::Memory));
        let mounts: Vec<_> = memory.map(|legacy| &legacy.hierarchy.mount).collect();
        assert_eq!(mounts, [Path::new("/sys/fs/cgroup/memory")]);
    }

    #[test]
    fn a_mount_path_leaves_out_hierarchies_elsewhere() {
        let elsewhere = V1.to_owned() + "50 1 0:9 / /mnt/pids rw - cgroup cgroup rw,pids\n";
        let layout = Layout::parse(&elsewhere, "").mounted_below(Path::new("/mnt"));
        assert_eq!(layout.legacy.len(), 1);
        assert_eq!(layout.legacy[0].hierarchy.mount, Path::new("/mnt/pids"));
    }

    #[test]
    fn a_layout_can_be_looked_up_below_another_root() {
        let layout = Layout::parse(V2, "0::/\n").below(Path::new("/tmp/x"));
        assert_eq!(
            layout.unified.unwrap().mount,
            Path::new("/tmp/x/sys/fs/cgroup")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(mountinfo in ".{0,400}", own in ".{0,200}") {
            let _ = Layout::parse(&mountinfo, &own);
        }

        #[test]
        fn any_fields_are_parsed_without_panic(fields in proptest::collection::vec("[ -~]{0,12}", 0..14)) {
            let line = fields.join(" ") + " - cgroup cgroup rw,memory";
            let _ = Layout::parse(&line, &line);
        }
    }
}
