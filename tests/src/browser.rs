//! A headless Chromium, controlled by its DevTools protocol: JSON between NUL bytes through two
//! pipes, no port.
//!
//! The pipes are named pipes in the browser's own folder, which a shell opens as the descriptors 3
//! and 4 that `--remote-debugging-pipe` asks for.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Process;
use crate::wait;

/// Name of the program in Debian.
pub const CHROMIUM: &str = "chromium";

/// Deadline for an answer of the browser, on a machine that is busy building.
const ANSWER_DEADLINE: Duration = Duration::from_secs(90);

/// Deadline for a page to show what a test waits for.
const PAGE_DEADLINE: Duration = Duration::from_secs(60);

const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A running browser; dropping it ends the process and removes its folder.
#[derive(Debug)]
pub struct Browser {
    _process: Process,
    commands: File,
    messages: Receiver<Value>,
    last_id: u64,
    _folder: TempDir,
}

/// A page of a browser.
#[derive(Debug)]
pub struct Page {
    browser: Browser,
    session: String,
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder: {error}"));
        let (to, from) = (pipe(folder.path(), "to"), pipe(folder.path(), "from"));
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$@\" 3<\"$TO\" 4>\"$FROM\"", "sh", CHROMIUM])
            .args(FLAGS)
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join("profile").display()
            ))
            .arg("about:blank")
            .env("TO", &to)
            .env("FROM", &from)
            .env("HOME", folder.path());
        // Both ways, so that opening the pipe does not block.
        let commands = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&to)
            .unwrap_or_else(|error| panic!("cannot open {}: {error}", to.display()));
        let process = Process::start(CHROMIUM, &mut command, folder.path());
        let (send, messages) = channel();
        // The thread ends with the browser, the only writer.
        std::thread::spawn(move || {
            let Ok(answers) = File::open(from) else {
                return;
            };
            for message in BufReader::new(answers).split(0) {
                let parsed = message.map(|bytes| serde_json::from_slice(&bytes));
                let Ok(Ok(message)) = parsed else { return };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            _process: process,
            commands,
            messages,
            last_id: 0,
            _folder: folder,
        }
    }

    /// Opens a page of this size, in CSS pixels, at `url`, and waits until it is loaded.
    ///
    /// # Panics
    /// When loading takes too long.
    #[must_use]
    pub fn open(mut self, url: &str, width: u32, height: u32) -> Page {
        let target = self.call(None, "Target.createTarget", json!({"url": "about:blank"}));
        let attached = self.call(
            None,
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        let session = attached["sessionId"]
            .as_str()
            .expect("a session has an id")
            .to_owned();
        let mut page = Page {
            browser: self,
            session,
        };
        page.call("Runtime.enable", json!({}));
        page.resize(width, height);
        page.go(url);
        page
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands
            .write_all(&bytes)
            .unwrap_or_else(|error| panic!("cannot tell the browser {method}: {error}"));
        let deadline = Instant::now() + ANSWER_DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(mut answer) if answer["id"] == id => {
                    let error = &answer["error"];
                    assert!(error.is_null(), "{method}: {error}");
                    return answer["result"].take();
                }
                // An event; no call waits for it.
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => panic!("waited {ANSWER_DEADLINE:?} for {method}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the browser is gone at {method}"),
            }
        }
    }
}

impl Page {
    fn call(&mut self, method: &str, params: Value) -> Value {
        let session = self.session.clone();
        self.browser.call(Some(&session), method, params)
    }

    /// Loads `url` in this page and waits until it is loaded.
    ///
    /// # Panics
    /// When loading takes too long.
    pub fn go(&mut self, url: &str) {
        let gone = self.call("Page.navigate", json!({"url": url}));
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
        self.wait(
            &format!("{url} loaded"),
            "document.readyState === 'complete' && document.URL !== 'about:blank'",
        );
    }

    /// Sets the size of the window, in CSS pixels.
    pub fn resize(&mut self, width: u32, height: u32) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    /// Switches pages between dark and light colours.
    pub fn prefer_dark(&mut self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Evaluates a JavaScript expression; returns its value.
    ///
    /// # Panics
    /// When the expression throws.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut evaluated = self.call("Runtime.evaluate", params);
        let thrown = &evaluated["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        evaluated["result"]["value"].take()
    }

    /// Evaluates a JavaScript expression; returns its value as text.
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// At the deadline, with the text of the page.
    #[track_caller]
    pub fn wait(&mut self, what: &str, expression: &str) {
        let waited = wait::try_until(what, PAGE_DEADLINE, || {
            let value = self.eval(expression);
            wait::check(value == true, value)
        });
        if let Err(why) = waited {
            let page = self.text("document.body ? document.body.innerText : ''");
            panic!("{why}; the page:\n{page}");
        }
    }

    /// Returns a picture of the window's content, as PNG.
    ///
    /// # Panics
    /// When the browser returns none.
    pub fn screenshot(&mut self) -> Vec<u8> {
        use base64::Engine as _;
        let shot = self.call(
            "Page.captureScreenshot",
            json!({"format": "png", "optimizeForSpeed": false}),
        );
        let data = shot["data"].as_str().expect("a screenshot has data");
        base64::engine::general_purpose::STANDARD
            .decode(data)
            .expect("a screenshot is base64")
    }
}

fn pipe(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)
        .unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
    path
}
