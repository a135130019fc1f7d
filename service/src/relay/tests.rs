use std::net::{Ipv4Addr, TcpListener};

use super::*;
use crate::manager::Manager;
use crate::manager::tests::Listening;
use crate::message::Message;

/// Receives a message without waiting.
pub(crate) fn receive_all(socket: BorrowedFd<'_>) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut text = [0; BYTES_MAX];
    let (length, sockets) = receive(socket, &mut text, RecvFlags::DONTWAIT)?;
    Ok((String::from_utf8(text[..length].to_vec()).unwrap(), sockets))
}

/// A relay whose manager listens, and the program's manager.
fn relay(listening: &Listening, sockets: Vec<(String, OwnedFd)>) -> (Relay, Manager) {
    let environment = listening.environment(&[("WATCHDOG_USEC", "7000000")]);
    let mut passed = Passed::of_environment(&environment).unwrap().unwrap();
    passed.sockets = sockets;
    let (relay, program) = Relay::make(passed).unwrap();
    (relay, Manager::of_relay(program).unwrap())
}

#[test]
fn what_the_manager_passed_reaches_the_program() {
    let web = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = web.local_addr().unwrap();
    let listening = Listening::new();
    let (_relay, program) = relay(&listening, vec![("web".to_owned(), web.into())]);
    assert_eq!(program.watchdog(), Some(Duration::from_secs(7)));
    let taken = program.take_listener("web", address).unwrap();
    assert_eq!(taken.local_addr().unwrap(), address);
}

#[test]
fn notifications_and_sockets_reach_the_manager_from_the_front() {
    let listening = Listening::new();
    let (relay, program) = relay(&listening, Vec::new());
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    program.notify(Message::Status("2 running"));
    program.keep("web", socket.as_fd());
    assert!(relay.forward());
    assert_eq!(listening.receive().0, "STATUS=2 running");
    assert!(relay.forward());
    let (text, sockets) = listening.receive();
    assert!(text.starts_with("FDSTORE=1"), "{text}");
    assert_eq!(sockets.len(), 1);
}

#[test]
fn the_relay_ends_with_the_program_after_its_last_message() {
    let listening = Listening::new();
    let (relay, program) = relay(&listening, Vec::new());
    assert!(relay.forward(), "nothing is there yet");
    program.notify(Message::Stopping);
    drop(program);
    assert!(relay.forward());
    assert_eq!(listening.receive().0, "STOPPING=1");
    assert!(!relay.forward());
}

#[test]
fn a_program_outlives_a_front_that_is_gone() {
    let listening = Listening::new();
    let (relay, program) = relay(&listening, Vec::new());
    drop(relay);
    program.notify(Message::Alive);
}

#[test]
fn a_message_that_is_none_of_a_front_is_refused() {
    let (one, other) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    for text in ["", "x", "-1\nweb"] {
        send(one.as_fd(), text.as_bytes(), &[]).unwrap();
        let refused = Manager::of_relay(other.try_clone().unwrap());
        assert!(refused.is_err(), "{text:?}");
    }
}
