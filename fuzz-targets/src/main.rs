//! Names the fuzz targets, and moves their inputs between the kept texts and folders of files, as a
//! fuzzer wants them.

use std::env;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use fuzz_targets::{TARGETS, Target, corpus};

const USAGE: &str = "usage: fuzz-targets list | unpack TARGET FOLDER | pack TARGET FOLDER";

fn run(arguments: &[&str]) -> io::Result<()> {
    let target = |name: &str| -> io::Result<&'static Target> {
        let unknown = || io::Error::other(format!("{name} is no target; see `list`"));
        fuzz_targets::find(name).ok_or_else(unknown)
    };
    match arguments {
        ["list"] => {
            for target in TARGETS {
                println!("{} {}", target.name, target.bytes_max);
            }
            Ok(())
        }
        ["unpack", name, folder] => corpus::unpack(target(name)?, Path::new(folder)),
        ["pack", name, folder] => {
            let (kept, all) = corpus::pack(target(name)?, Path::new(folder))?;
            println!("{name}: {kept} of {all} inputs are kept");
            Ok(())
        }
        _ => Err(io::Error::other(USAGE)),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
