//! Quoting of commands against two shells and a node's markers. Pure.
//!
//! A NodeManager replaces markers (`<LOG_DIR>`, `{{NAME}}`) in a command and puts it between double
//! quotes into a bash script, which passes it to a second bash (Hadoop:
//! `ContainerLaunch.expandEnvironment`, `UnixShellScriptBuilder.command`). Every word of the user
//! is quoted against all three here, so that the program gets it unchanged.

use std::collections::BTreeMap;

/// Appends a word for the inner shell, between single quotes, where only the quote itself is
/// special. Two quotes after each `{`, `}` and `<` break the node's markers and are nothing to the
/// shell.
fn put_word(out: &mut String, word: &str) {
    out.push('\'');
    for c in word.chars() {
        match c {
            '\'' => out.push_str("'\\''"),
            '{' | '}' | '<' => {
                out.push(c);
                out.push_str("''");
            }
            _ => out.push(c),
        }
    }
    out.push('\'');
}

/// Returns the script of the inner shell, which sets these variables and executes the program.
#[must_use]
pub fn inner_script(environment: &BTreeMap<String, String>, command: &[String]) -> String {
    let mut script = String::new();
    for (name, value) in environment {
        script.push_str("export ");
        script.push_str(name);
        script.push('=');
        put_word(&mut script, value);
        script.push_str("; ");
    }
    script.push_str("exec");
    // Without `--` a program whose name begins with a dash would be an option of exec.
    script.push_str(" --");
    for word in command {
        script.push(' ');
        put_word(&mut script, word);
    }
    script
}

/// Returns the command of a launch context: the program with its outputs in the container's log
/// folder.
#[must_use]
pub fn launch_command(environment: &BTreeMap<String, String>, command: &[String]) -> String {
    let inner = inner_script(environment, command);
    let mut out = String::with_capacity(inner.len() + 64);
    for c in inner.chars() {
        // Special between double quotes.
        if matches!(c, '\\' | '"' | '$' | '`') {
            out.push('\\');
        }
        out.push(c);
    }
    // The node's folders may have blanks in their names. These quotes are the inner shell's.
    out.push_str(r#" 1>\"<LOG_DIR>/stdout\" 2>\"<LOG_DIR>/stderr\""#);
    out
}

/// Returns whether bash accepts this name for a variable.
#[must_use]
pub fn is_variable_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// Replaces markers in a command as a node does before it writes its script.
    fn expand(text: &str, log_dir: &str) -> String {
        text.replace("<LOG_DIR>", log_dir)
            .replace("<CPS>", ":")
            .replace("<ADD_OPENS>", "--add-opens")
            .replace("{{", "$")
            .replace("}}", "")
    }

    /// Runs words as a node would; returns the words that the program got, and its variable `A`.
    fn through_both_shells(words: &[String], a: &str) -> (Vec<String>, String) {
        let folder = tempfile::Builder::new().prefix("it's a ").tempdir();
        let folder = folder.unwrap();
        let log_dir = folder.path().to_str().unwrap();
        let mut command: Vec<String> = ["/bin/bash", "-c", r#"printf '%s\0' "$A" "$@""#, "name"]
            .map(str::to_owned)
            .to_vec();
        command.extend_from_slice(words);
        let environment = BTreeMap::from([("A".to_owned(), a.to_owned())]);
        let command = expand(&launch_command(&environment, &command), log_dir);
        let script = format!("set -o pipefail -e\nexec /bin/bash -c \"{command}\"\n");
        let file = folder.path().join("script");
        std::fs::write(&file, script).unwrap();
        let status = Command::new("/bin/bash").arg(&file).status().unwrap();
        assert!(status.success());
        let out = std::fs::read(folder.path().join("stdout")).unwrap();
        let out = String::from_utf8(out).unwrap();
        let mut got: Vec<String> = out.split_terminator('\0').map(str::to_owned).collect();
        let variable = got.remove(0);
        (got, variable)
    }

    #[test]
    fn words_that_mean_something_to_a_shell_or_a_node_arrive_as_they_are() {
        let words: Vec<String> = [
            "",
            " ",
            "a b",
            "'",
            "\"",
            "\\",
            "$HOME",
            "`id`",
            "$(id)",
            "*",
            "~",
            "-n",
            "--",
            ";",
            "&&",
            "|",
            ">x",
            "!!",
            "{{HOME}}",
            "{{{",
            "}}}",
            "<LOG_DIR>",
            "<CPS>",
            "<ADD_OPENS>",
            "a\nb",
            "\t",
            "ü€",
            "#",
            "\\n",
            "'\\''",
            "%s",
        ]
        .map(str::to_owned)
        .to_vec();
        let (got, variable) = through_both_shells(&words, "$X '\"{{Y}}\n");
        assert_eq!(got, words);
        assert_eq!(variable, "$X '\"{{Y}}\n");
    }

    #[test]
    fn names_of_variables_are_those_of_bash() {
        for name in ["A", "_", "a1_B"] {
            assert!(is_variable_name(name), "{name}");
        }
        for name in ["", "1A", "A-B", "A=B", "A B", "Ä", "A;id"] {
            assert!(!is_variable_name(name), "{name}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_words_arrive(
            words in prop::collection::vec("[^\0]{0,12}", 0..6),
            nasty in prop::collection::vec("[$`\"'\\\\{}<>LOG_DIR!\n ]{0,16}", 0..6),
        ) {
            let words = [words, nasty].concat();
            let (got, _) = through_both_shells(&words, "");
            prop_assert_eq!(got, words);
        }
    }
}
