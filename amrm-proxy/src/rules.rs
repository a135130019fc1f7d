//! Applications that an operator's rule applies to.

/// Returns whether a rule for this user and tag, each if set, applies to an application.
pub(crate) fn applies(
    rule_user: Option<&str>,
    rule_tag: Option<&str>,
    user: &str,
    tags: &[String],
) -> bool {
    rule_user.is_none_or(|wanted| wanted == user)
        && rule_tag.is_none_or(|wanted| tags.iter().any(|tag| tag == wanted))
}
