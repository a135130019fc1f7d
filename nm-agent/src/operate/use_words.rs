//! Words about what containers use.

use node_view::operator::Status;
use node_view::overview::words::{duration, number, vcores};
use node_view::usage::{Stalled, Usage, Used};

/// Returns what all containers use, as one line.
pub(super) fn usage_words(status: &Status) -> String {
    let Some(Usage {
        at_ms,
        machine_memory_mb,
        all,
        ..
    }) = &status.usage
    else {
        return "not measured".to_owned();
    };
    let ago_ms = u64::try_from(status.at_ms.saturating_sub(*at_ms)).unwrap_or(0);
    let mut words = format!("{}, as of {} ago", used_words(all), duration(ago_ms));
    if *machine_memory_mb > 0 {
        let machine = number(*machine_memory_mb);
        words.push_str(&format!("; the whole machine uses {machine} MiB"));
    }
    words
}

/// Returns what a container uses, or several together, as one line.
pub(super) fn used_words(used: &Used) -> String {
    let (memory, asked) = (number(used.memory_mb), number(used.memory_asked_mb));
    let mut words = format!("{memory} of {asked} MiB asked");
    if let Some(peak) = used.memory_peak_mb {
        words.push_str(&format!(" (at most {})", number(peak)));
    }
    words.push_str(&format!(
        ", {} of {}",
        used.cpus(),
        vcores(used.vcores_asked)
    ));
    if let (Some(read), Some(written)) = (used.read_mb, used.written_mb) {
        let (read, written) = (number(read), number(written));
        words.push_str(&format!(", {read} MiB read, {written} MiB written"));
    }
    words
}

/// Returns the parts of the time in which a task waited for a CPU, memory and devices, in percent;
/// empty: unknown.
pub(super) fn stalled_words(used: &Used) -> String {
    let Some(Stalled {
        cpu_percent,
        memory_percent,
        io_percent,
    }) = used.stalled
    else {
        return String::new();
    };
    format!("{cpu_percent}/{memory_percent}/{io_percent} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used() -> Used {
        Used {
            containers: 1,
            memory_asked_mb: 1_512,
            memory_mb: 90,
            memory_peak_mb: Some(1_100),
            vcores_asked: 1,
            cpu_millis: 1_996,
            ..Used::default()
        }
    }

    #[test]
    fn use_is_told_beside_what_was_asked() {
        let words = "90 of 1,512 MiB asked (at most 1,100), 2.00 of 1 vcore";
        assert_eq!(used_words(&used()), words);
        let moved = Used {
            memory_peak_mb: None,
            vcores_asked: 3,
            read_mb: Some(7),
            written_mb: Some(8_000),
            ..used()
        };
        let words = "90 of 1,512 MiB asked, 2.00 of 3 vcores, 7 MiB read, 8,000 MiB written";
        assert_eq!(used_words(&moved), words);
    }

    #[test]
    fn stalls_are_percents_of_cpu_memory_and_devices() {
        let stalled = Stalled {
            cpu_percent: 12,
            memory_percent: 0,
            io_percent: 100,
        };
        let stalled = Used {
            stalled: Some(stalled),
            ..used()
        };
        assert_eq!(stalled_words(&stalled), "12/0/100 %");
        assert_eq!(stalled_words(&used()), "");
    }

    #[test]
    fn a_node_that_measures_nothing_says_so() {
        let mut status = crate::operate::tests::status();
        assert_eq!(usage_words(&status), "not measured");
        status.usage = Some(Usage {
            at_ms: status.at_ms - 1_500,
            machine_memory_mb: 4_000,
            all: used(),
            applications: Vec::new(),
            containers: Vec::new(),
        });
        let words = usage_words(&status);
        let expected = "vcore, as of 1.5 s ago; the whole machine uses 4,000 MiB";
        assert!(words.ends_with(expected), "{words}");
    }
}
