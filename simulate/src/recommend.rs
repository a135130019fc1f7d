//! The arm that a comparison recommends, with the figures that led to it.

use crate::numbers::ratio;
use crate::scenario::Nature;
use crate::summary::{ArmSummary, Estimate, Settling};

/// Recommendation of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// Position of the arm.
    pub arm: usize,
    /// Arms that may be as good, as far as the seeds tell: the paired 95 % interval of the
    /// difference of their median completion time reaches 0.
    pub equal: Vec<Rival>,
    /// The best of the arms that are worse.
    pub next: Option<Rival>,
}

/// Arm beside the recommended one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rival {
    /// Position of the arm.
    pub arm: usize,
    /// Median completion time of the arm relative to the recommended arm's on the same seed, minus
    /// 1.
    pub longer: Estimate,
}

/// Recommends the arm with the shortest median of the job completion times, among those that ship
/// and settle. `None` if fewer than two arms ship, or none settles.
#[must_use]
pub fn recommend(arms: &[ArmSummary]) -> Option<Recommendation> {
    let shipped = |arm: &&ArmSummary| arm.nature == Nature::Ships;
    if arms.iter().filter(shipped).count() < 2 {
        return None;
    }
    let p50 = |arm: usize| arms[arm].figures.first().map_or(f64::MAX, |p50| p50.mean);
    let mut candidates: Vec<usize> = (0..arms.len())
        .filter(|arm| shipped(&&arms[*arm]) && arms[*arm].settling == Settling::Settles)
        .collect();
    candidates.sort_by(|a, b| p50(*a).total_cmp(&p50(*b)));
    let (best, others) = candidates.split_first()?;
    let rivals = others.iter().map(|arm| Rival {
        arm: *arm,
        longer: longer(&arms[*best], &arms[*arm]),
    });
    let is_equal = |rival: &Rival| {
        let width = rival.longer.half_width.unwrap_or(f64::INFINITY);
        rival.longer.mean <= width
    };
    let (equal, worse): (Vec<Rival>, Vec<Rival>) = rivals.partition(is_equal);
    Some(Recommendation {
        arm: *best,
        equal,
        next: worse.first().copied(),
    })
}

/// Returns how much longer an arm takes than the best one, by pairs of the same seed.
fn longer(best: &ArmSummary, other: &ArmSummary) -> Estimate {
    let pairs = best.p50_by_seed.iter().zip(&other.p50_by_seed);
    let relative: Vec<f64> = pairs
        .filter_map(|(best, other)| Some(ratio((*other)?, (*best)?) - 1.0))
        .collect();
    Estimate::of(&relative)
}

/// Returns the recommendation in words.
#[must_use]
pub fn in_words(arms: &[ArmSummary]) -> String {
    let Some(found) = recommend(arms) else {
        return String::new();
    };
    let with_figures = |rival: &Rival| {
        let width = rival.longer.half_width.map_or_else(
            || " %".to_owned(),
            |width| format!(" ± {:.0} %", width * 100.0),
        );
        let percent = rival.longer.mean * 100.0;
        format!("{} ({percent:+.0}{width})", arms[rival.arm].label)
    };
    let mut words = format!(
        "Recommended: {}. Of the arms that ship and settle it has the shortest median of the job \
         completion times.",
        arms[found.arm].label
    );
    if !found.equal.is_empty() {
        let equal: Vec<String> = found.equal.iter().map(with_figures).collect();
        let equal = equal.join("; ");
        words.push_str(&match arms[found.arm].seeds {
            1 => format!(" One seed does not tell whether others are as good: {equal}."),
            seeds => format!(" As good, as far as {seeds} seeds tell: {equal}."),
        });
    }
    if let Some(next) = &found.next {
        words.push_str(&format!(" Next: {}.", with_figures(next)));
    }
    let unsettled = arms.iter().filter(|arm| arm.nature == Nature::Ships);
    let unsettled = unsettled.filter(|arm| arm.settling != Settling::Settles);
    let unsettled: Vec<&str> = unsettled.map(|arm| arm.label.as_str()).collect();
    if !unsettled.is_empty() {
        words.push_str(&format!(" Left out: {}.", unsettled.join("; ")));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(label: &str, p50_by_seed: &[f64]) -> ArmSummary {
        ArmSummary {
            label: label.to_owned(),
            nature: Nature::Ships,
            figures: vec![Estimate::of(p50_by_seed)],
            against_first: None,
            settling: Settling::Settles,
            seeds: p50_by_seed.len(),
            p50_by_seed: p50_by_seed.iter().copied().map(Some).collect(),
        }
    }

    #[test]
    fn pairs_tell_apart_what_the_spread_of_the_seeds_would_hide() {
        let arms = [
            arm("worse", &[11.0, 22.1, 33.0]),
            arm("best", &[10.0, 20.0, 30.0]),
            arm("equal", &[9.0, 23.0, 29.0]),
        ];
        let found = recommend(&arms).unwrap();
        assert_eq!(found.arm, 1);
        assert_eq!(found.equal.len(), 1);
        assert_eq!(found.equal[0].arm, 2);
        assert_eq!(found.next.unwrap().arm, 0);
        let words = in_words(&arms);
        assert!(words.starts_with("Recommended: best."), "{words}");
        assert!(words.contains("Next: worse (+10 ± 1 %)"), "{words}");
        let words = in_words(&[arm("best", &[10.0]), arm("another", &[17.0])]);
        assert!(words.contains("as good: another (+70 %)."), "{words}");
    }

    #[test]
    fn an_arm_that_does_not_settle_or_does_not_ship_is_never_recommended() {
        let mut arms = [
            arm("collapses", &[1.0, 1.0]),
            arm("a model", &[2.0, 2.0]),
            arm("ships", &[3.0, 3.0]),
        ];
        arms[0].settling = Settling::DoesNotSettle;
        arms[1].nature = Nature::Model;
        let words = in_words(&arms);
        assert!(words.starts_with("Recommended: ships."), "{words}");
        assert!(words.contains("Left out: collapses."), "{words}");
        arms[2].settling = Settling::TooShort;
        assert_eq!(recommend(&arms), None);
    }
}
