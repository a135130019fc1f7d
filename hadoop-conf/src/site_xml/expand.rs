//! Expansion of `${…}` in values, exactly as by `Configuration.substituteVars` of Hadoop 3.4.2.
//!
//! Pure: the caller looks names up.

use super::error::ExpandError;
use super::{EXPANDED_BYTES_MAX, SUBSTITUTIONS_MAX};

/// Result of an expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) value: String,
    /// Names that were replaced, in order: a caller that prints the value must know whether it
    /// contains a secret.
    pub(super) used: Vec<String>,
    /// First name without a value: it and all later ones are left unchanged.
    pub(super) unresolved: Option<String>,
}

/// Replaces `${name}` in `value` by the result of `lookup`, the innermost and leftmost first, until
/// none is left.
///
/// A name without a value ends the expansion; so does one whose value refers back to it, and then
/// nothing is replaced.
pub(super) fn expand(
    value: &str,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Expanded, ExpandError> {
    let mut current = value.to_owned();
    let mut used = Vec::new();
    for _ in 0..SUBSTITUTIONS_MAX {
        let Some((start, end)) = find_variable(&current) else {
            return Ok(Expanded {
                value: current,
                used,
                unresolved: None,
            });
        };
        let name = current[start..end].to_owned();
        let Some(replacement) = lookup(&name) else {
            return Ok(Expanded {
                value: current,
                used,
                unresolved: Some(name),
            });
        };
        // "${" before the name and "}" after it are one byte per character.
        let reference = start - 2..end + 1;
        if replacement.contains(&current[reference.clone()]) {
            return Ok(Expanded {
                value: value.to_owned(),
                used,
                unresolved: Some(name),
            });
        }
        if current.len().saturating_add(replacement.len()) > EXPANDED_BYTES_MAX {
            return Err(ExpandError::TooLong);
        }
        current.replace_range(reference, &replacement);
        used.push(name);
    }
    Err(ExpandError::TooManySubstitutions)
}

/// Returns start and end of the first innermost variable's name, without its `${` and `}`. A name
/// has at least one character, and neither blank nor `$` nor `}`.
fn find_variable(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut from = 1;
    'search: while let Some(offset) = bytes.get(from..)?.iter().position(|b| *b == b'{') {
        let brace = from + offset;
        if bytes[brace - 1] != b'$' {
            from = brace + 1;
            continue;
        }
        let start = brace + 1;
        for (length, byte) in bytes[start..].iter().enumerate() {
            match byte {
                b'}' if length > 0 => return Some((start, start + length)),
                b'}' | b' ' | b'$' => {
                    from = start + length + 1;
                    continue 'search;
                }
                _ => {}
            }
        }
        return None;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn world(name: &str) -> Option<String> {
        let value = match name {
            "b" => "B",
            "c" => "C",
            "n" => "b",
            "a" => "${a}",
            "l1" => "${l2}",
            "l2" => "${l1}",
            "d" => "${b}-${c}",
            "sp" => " s ",
            _ => return None,
        };
        Some(value.to_owned())
    }

    /// Asserts Hadoop 3.4.2's answers to `Configuration.get("a")` for values of property `a`.
    #[test]
    fn values_expand_as_hadoop_expands_them() {
        for (text, hadoop) in [
            ("${b}", "B"),
            ("${b}${c}", "BC"),
            ("${nope}x${b}", "${nope}x${b}"),
            ("${b}x${nope}${c}", "Bx${nope}${c}"),
            ("${a}", "${a}"),
            ("${${n}}", "B"),
            ("${b", "${b"),
            ("$ {b}", "$ {b}"),
            ("${}", "${}"),
            ("${ b}", "${ b}"),
            ("${b }", "${b }"),
            ("$${b}", "$B"),
            ("{${b}}", "{B}"),
            ("${b$c}", "${b$c}"),
            ("${d}", "B-C"),
            ("${sp}", " s "),
            ("${x}${b}${}", "${x}${b}${}"),
            ("", ""),
        ] {
            let expanded = expand(text, world).unwrap();
            assert_eq!(expanded.value, hadoop, "{text}");
        }
    }

    #[test]
    fn two_names_that_refer_to_each_other_end_at_hadoops_limit() {
        assert_eq!(
            expand("${l1}", world),
            Err(ExpandError::TooManySubstitutions)
        );
    }

    #[test]
    fn the_twentieth_substitution_is_refused_even_if_it_is_the_last() {
        assert!(expand(&"${b}".repeat(19), world).is_ok());
        let twenty = expand(&"${b}".repeat(20), world);
        assert_eq!(twenty, Err(ExpandError::TooManySubstitutions));
    }

    #[test]
    fn values_that_multiply_stop_at_the_bound() {
        let large = "x".repeat(EXPANDED_BYTES_MAX / 4);
        let result = expand("${v}${v}${v}${v}${v}", |_| Some(large.clone()));
        assert_eq!(result, Err(ExpandError::TooLong));
    }

    #[test]
    fn what_went_in_and_what_was_missing_is_told() {
        let expanded = expand("${d}/${nope}", world).unwrap();
        assert_eq!(expanded.used, ["d", "b", "c"]);
        assert_eq!(expanded.unresolved.as_deref(), Some("nope"));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_text_without_dollar_stays(text in "\\PC*", dollars in "[${} ab\u{e9}]{0,40}") {
            let _ = expand(&dollars, world);
            if !text.contains('$') {
                prop_assert_eq!(expand(&text, world).unwrap().value, text);
            }
        }
    }
}
