//! Rules, good and bad.

use proptest::prelude::*;

use super::*;

const REALM: &str = "LAB.TEST";

fn user_by(rules: &str, mechanism: Mechanism, principal: &str) -> Result<String, NameError> {
    let rules = NameRules::parse(rules, mechanism);
    rules.expect("rules").user(principal, REALM)
}

fn user(rules: &str, principal: &str) -> Result<String, NameError> {
    user_by(rules, Mechanism::Hadoop, principal)
}

#[test]
fn the_first_rule_that_fits_names_the_user() {
    let services = "RULE:[2:$1@$0](rm@LAB.TEST)s/.*/yarn/ RULE:[2:$1@$0](nm@.*)s/.*/yarn/\nDEFAULT";
    for (rules, principal, expected) in [
        ("", "alice@LAB.TEST", "alice"),
        ("DEFAULT", "alice@LAB.TEST", "alice"),
        ("DEFAULT", "HTTP/host@LAB.TEST", "HTTP"),
        ("DEFAULT", "alice", "alice"),
        (services, "rm/host.example@LAB.TEST", "yarn"),
        (services, "nm/host@OTHER", "yarn"),
        (services, "alice@LAB.TEST", "alice"),
        ("RULE:[1:$1]", "alice@OTHER", "alice"),
        ("RULE:[1:$1@$0](.*@OTHER)s/@.*//", "alice@OTHER", "alice"),
        ("RULE:[2:$2.$1]", "nm/host@OTHER", "host.nm"),
        ("RULE:[1:$1]s/a/b/", "aaa@OTHER", "baa"),
        ("RULE:[1:$1]s/a/b/g", "aaa@OTHER", "bbb"),
        ("RULE:[1:$1]s/(a)(l)/$2$1/", "alice@OTHER", "laice"),
        ("RULE:[1:$1]/L", "ALICE@OTHER", "alice"),
        ("RULE:[1:$1]s/X/y/g/L", "ALXX@OTHER", "alyy"),
        ("RULE:[1:$1](ALICE)/L", "ALICE@OTHER", "alice"),
        ("DEFAULT/L", "ALICE@LAB.TEST", "alice"),
        // Hadoop needs no blank between rules.
        ("RULE:[2:$1]RULE:[1:$1]", "alice@OTHER", "alice"),
    ] {
        assert_eq!(
            user(rules, principal).as_deref(),
            Ok(expected),
            "{rules} {principal}"
        );
    }
}

#[test]
fn names_that_no_rule_makes_simple_are_refused_or_kept() {
    use Mechanism::Mit;
    for (rules, principal) in [
        ("DEFAULT", "alice@OTHER"),
        ("RULE:[1:$1](bob)", "alice@LAB.TEST"),
        // The whole text has to match.
        ("RULE:[1:$1](lic)", "alice@LAB.TEST"),
        ("RULE:[2:$1]", "alice@LAB.TEST"),
        // Without a realm it is no service of the default one.
        ("DEFAULT", "nm/host"),
    ] {
        let expected = Err(NameError::NoRule(principal.to_owned()));
        assert_eq!(user(rules, principal), expected, "{rules}");
        let kept = user_by(rules, Mit, principal);
        assert_eq!(kept.as_deref(), Ok(principal), "{rules}");
    }
    let empty = Err(NameError::NotSimple(String::new()));
    assert_eq!(user("RULE:[1:$1]s/.*//", "alice@OTHER"), empty);
    let odd = "RULE:[1:$1@$0]";
    let expected = Err(NameError::NotSimple("alice@OTHER".to_owned()));
    assert_eq!(user(odd, "alice@OTHER"), expected);
    let kept = user_by(odd, Mit, "alice@OTHER");
    assert_eq!(kept.as_deref(), Ok("alice@OTHER"));
    let long = format!("{}@LAB.TEST", "a".repeat(64 * 1024));
    for malformed in [
        "", "@", "alice@", "@R", "a/b/c@R", "a@b@c", "a\\/b@R", "a\n@R", &long,
    ] {
        let refused = user("RULE:[1:root] DEFAULT", malformed);
        assert!(
            matches!(refused, Err(NameError::Malformed(_))),
            "{malformed:.40}"
        );
    }
}

#[test]
fn rules_that_cannot_be_used_say_why() {
    let told = |rules: &str| {
        let read = NameRules::parse(rules, Mechanism::Hadoop);
        read.map(|_| ()).expect_err(rules).to_string()
    };
    for rules in [
        "default",
        "RULE",
        "RULE:[1:$1",
        "RULE:[x:$1]",
        "RULE:[1:$1](a",
        "RULE:[1:$1]s/a/b",
        "DEFAULT nonsense",
    ] {
        assert!(told(rules).starts_with("invalid rule: "), "{rules}");
    }
    // The first bracket ends the pattern, as in Hadoop, where the ResourceManager does not start.
    for rules in [
        "RULE:[1:$1](((rm|nm)@X))",
        "RULE:[1:$1](?=a)",
        "RULE:[1:$1]s/(?<!a)b/c/",
        r"RULE:[1:$1]s/(a)\1/c/",
        "RULE:[1:$1]s/((a{500}){500}){500}/c/",
    ] {
        assert!(
            told(rules).contains("a pattern that this agent cannot use"),
            "{rules}"
        );
    }
    for rules in [
        "RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[3:$1]",
        "RULE:[1:$1]s/a/$1/",
    ] {
        assert!(told(rules).contains("a part that is not there"), "{rules}");
    }
    assert_eq!(
        told(&"DEFAULT ".repeat(RULES_MAX + 1)),
        RulesError::TooMany.to_string()
    );
}

#[test]
fn a_pattern_for_which_java_would_never_end_ends() {
    let rules = "RULE:[1:$1](a*a*a*a*a*a*b)s/x*x*x*y// DEFAULT";
    let principal = format!(
        "{}@LAB.TEST",
        "a".repeat(PRINCIPAL_BYTES_MAX - REALM.len() - 1)
    );
    assert!(user(rules, &principal).is_ok());
}

proptest! {
    #[test]
    fn any_text_is_a_list_of_rules_or_refused(rules in "(RULE:|DEFAULT|\\[1:\\$1\\]|s/|[a-z()/$*]){0,20}", principal in ".{0,60}") {
        if let Ok(rules) = NameRules::parse(&rules, Mechanism::Hadoop)
            && let Ok(name) = rules.user(&principal, REALM) {
            prop_assert!(!name.contains('@'));
        }
    }
}
