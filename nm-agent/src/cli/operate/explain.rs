//! `nm-agent explain`: the story of a container or of an application's containers, once or as it
//! goes on.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use node_admin::message::{Answer, Request};
use records::{ApplicationId, ContainerName};
use time::UtcOffset;

use super::{Environment, Failed, Socket, ask_at, json, path, print_out, wrong_answer};
use crate::operate::{Story, application_text, explanation_text};

/// Steps of an application that are printed at first.
const STEPS_SHOWN: usize = 500;

/// Pause between two looks of `--follow`.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    socket: Socket,
    /// Print the answer as JSON, for programs
    #[arg(long)]
    json: bool,
    /// Print further steps as they come, until the container has ended
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    /// Id of a container or of an application
    #[arg(value_name = "ID", value_parser = subject)]
    subject: Subject,
}

/// Subject of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Container(ContainerName),
    Application(ApplicationId),
}

fn subject(text: &str) -> Result<Subject, &'static str> {
    let form = "an id looks like container_1763900000000_0001_01_000007 or \
                application_1763900000000_0001";
    let container = text.parse().map(Subject::Container);
    let application = || text.parse().map(Subject::Application);
    container.or_else(|_| application()).map_err(|_| form)
}

impl Subject {
    fn request(self) -> Request {
        match self {
            Self::Container(id) => Request::Explain {
                container: id.to_string(),
            },
            Self::Application(id) => Request::ExplainApplication {
                application: id.to_string(),
                last: STEPS_SHOWN,
            },
        }
    }
}

pub(crate) fn explain(arguments: &ExplainArguments, environment: &Environment) -> ExitCode {
    // Asked while there is one thread: the C library's answer is not safe beside others.
    let offset = UtcOffset::current_local_offset().unwrap_or(UtcOffset::UTC);
    let path = match path(&arguments.socket, environment) {
        Ok(path) => path,
        Err(failed) => return failed,
    };
    let request = arguments.subject.request();
    let answer = match ask_at(&path, &request) {
        Ok(answer) => answer,
        Err(failed) => return failed,
    };
    let told = if let Answer::Explain(explanation) = &answer {
        let text = explanation_text(explanation, offset);
        (json(explanation), text, Story::of_container(explanation))
    } else if let Answer::ExplainApplication(explanation) = &answer {
        let text = application_text(explanation, offset);
        (json(explanation), text, Story::of_application(explanation))
    } else {
        return wrong_answer();
    };
    let (document, text, story) = told;
    if arguments.json {
        return document.map_or_else(wrong_answer, |text| print_out(&text));
    }
    let printed = print_out(&text);
    if !arguments.follow {
        return printed;
    }
    match follow(&path, &request, story, offset) {
        Ok(()) => printed,
        Err(failed) => failed,
    }
}

fn story(answer: &Answer) -> Option<Story> {
    if let Answer::Explain(explanation) = answer {
        return Some(Story::of_container(explanation));
    }
    let Answer::ExplainApplication(explanation) = answer else {
        return None;
    };
    Some(Story::of_application(explanation))
}

/// Prints what each look has beyond the last, until the story is over or nobody reads.
fn follow(
    path: &Path,
    request: &Request,
    mut last: Story,
    offset: UtcOffset,
) -> Result<(), Failed> {
    while !last.is_over() {
        thread::sleep(FOLLOW_PAUSE);
        let answer = ask_at(path, request)?;
        let Some(next) = story(&answer) else {
            return Err(wrong_answer());
        };
        let text = next.since(&last, offset);
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if written.is_err() {
            return Ok(());
        }
        last = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_a_container_or_an_application_and_nothing_else() {
        let container = subject("container_e17_1763900000000_0001_01_000007");
        assert!(matches!(container, Ok(Subject::Container(_))));
        let application = subject("application_1763900000000_0001");
        assert!(matches!(application, Ok(Subject::Application(_))));
        for text in [
            "",
            "container_1",
            "application_x_1",
            "appattempt_1_0001_000001",
        ] {
            assert!(subject(text).is_err(), "{text}");
        }
    }
}
