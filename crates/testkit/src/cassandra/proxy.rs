//! A proxy between a driver and nodes, which loses, delays and cuts by rule what goes through it.
//!
//! It knows of the protocol (CQL, version 4) the head of a frame: 9 bytes, of which bytes 2 and 3
//! are the number of the request in its connection, byte 4 says what it asks for, and the last four
//! are the length of the rest.

use super::Nodes;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

const HEAD: usize = 9;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// A prepared statement.
    Execute,
    /// Several statements at once.
    Batch,
    /// Anything else, such as the start of a connection.
    Other,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes to the node, and its answer to the driver.
    Pass,
    /// The node does not get it.
    Lose,
    /// The driver does not get the answer.
    LoseAnswer,
    /// The node gets it later. What comes after it is not held up.
    Delay(Duration),
    /// The node gets it, and the connection ends instead of the answer.
    Cut,
}

/// Decides over a request by its kind and number: how many of that kind there were before, since
/// the rule was set.
pub type Rule = Box<dyn FnMut(Ask, u64) -> Fate + Send>;

/// A proxy in front of each node of a cluster.
pub struct Proxy {
    shared: Arc<ProxyShared>,
    addresses: Vec<SocketAddr>,
}

struct ProxyShared {
    rule: Mutex<Option<(Rule, HashMap<Ask, u64>)>>,
    is_closed: AtomicBool,
}

impl Proxy {
    /// Listens where [`Nodes::announced`] says. Everything passes, until there is a rule.
    pub fn new(nodes: &Nodes) -> Self {
        let is_closed = AtomicBool::new(false);
        let shared = Arc::new(ProxyShared { rule: Mutex::new(None), is_closed });
        let mut addresses = Vec::new();
        for n in 0..nodes.addresses.nodes {
            let (address, node) = (nodes.announced(n), nodes.address(n));
            assert_ne!(address, node, "the nodes are not behind a proxy");
            let listener = TcpListener::bind(address).unwrap();
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                for driver in listener.incoming() {
                    if shared.is_closed.load(Ordering::Relaxed) {
                        return;
                    }
                    // A node that was killed: the driver sees that its connection ends.
                    let (Ok(driver), Ok(node)) = (driver, TcpStream::connect(node)) else {
                        continue;
                    };
                    connect(&shared, driver, node).unwrap();
                }
            });
            addresses.push(address);
        }
        Self { shared, addresses }
    }

    /// Sets the rule from now on.
    pub fn set(&self, rule: impl FnMut(Ask, u64) -> Fate + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Some((Box::new(rule), HashMap::new()));
    }

    /// Lets everything pass from now on.
    pub fn pass(&self) {
        *self.shared.rule.lock().unwrap() = None;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        // Wakes the threads.
        for address in &self.addresses {
            let _woken = TcpStream::connect(address);
        }
    }
}

impl ProxyShared {
    fn decide(&self, ask: Ask) -> Fate {
        match self.rule.lock().unwrap().as_mut() {
            None => Fate::Pass,
            Some((rule, numbers)) => {
                let number = numbers.entry(ask).or_default();
                *number += 1;
                rule(ask, *number - 1)
            }
        }
    }
}

/// The requests of a connection whose answers do not pass, by their numbers.
type Held = Mutex<HashMap<[u8; 2], Fate>>;

/// Starts the two threads of a connection.
fn connect(shared: &Arc<ProxyShared>, driver: TcpStream, node: TcpStream) -> io::Result<()> {
    driver.set_nodelay(true)?;
    node.set_nodelay(true)?;
    let held = Arc::new(Held::default());
    let (mut from_driver, to_driver) = (driver.try_clone()?, driver);
    let (mut from_node, to_node) = (node.try_clone()?, Arc::new(Mutex::new(node)));
    let (shared, mine) = (Arc::clone(shared), Arc::clone(&held));
    std::thread::spawn(move || {
        while let Ok(frame) = read(&mut from_driver) {
            let fate = shared.decide(ask(&frame));
            let number = [frame[2], frame[3]];
            match fate {
                Fate::LoseAnswer | Fate::Cut => {
                    mine.lock().unwrap().insert(number, fate);
                }
                // The driver may use the number again, once it has given the request up.
                _ => {
                    mine.lock().unwrap().remove(&number);
                }
            }
            match fate {
                Fate::Lose => {}
                Fate::Delay(time) => {
                    let to_node = Arc::clone(&to_node);
                    std::thread::spawn(move || {
                        sleep(time);
                        // The connection may have ended.
                        let _late = to_node.lock().unwrap().write_all(&frame);
                    });
                }
                Fate::Pass | Fate::LoseAnswer | Fate::Cut => {
                    if to_node.lock().unwrap().write_all(&frame).is_err() {
                        break;
                    }
                }
            }
        }
        let _ended = from_driver.shutdown(Shutdown::Both);
        // What is delayed comes nevertheless.
        let _ended = to_node.lock().unwrap().shutdown(Shutdown::Read);
    });
    let mut to_driver = to_driver;
    std::thread::spawn(move || {
        while let Ok(frame) = read(&mut from_node) {
            let fate = held.lock().unwrap().remove(&[frame[2], frame[3]]);
            match fate {
                Some(Fate::Cut) => break,
                Some(_) => {}
                None => {
                    if to_driver.write_all(&frame).is_err() {
                        break;
                    }
                }
            }
        }
        let _ended = to_driver.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// Reads a frame.
fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEAD];
    stream.read_exact(&mut frame)?;
    let length = u32::from_be_bytes([frame[5], frame[6], frame[7], frame[8]]);
    frame.resize(HEAD + length as usize, 0);
    stream.read_exact(&mut frame[HEAD..])?;
    Ok(frame)
}

fn ask(frame: &[u8]) -> Ask {
    match frame[4] {
        0x0a => Ask::Execute,
        0x0d => Ask::Batch,
        _ => Ask::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u8, ask: u8, body: &[u8]) -> Vec<u8> {
        [&[4, 0, 0, number, ask, 0, 0, 0, body.len() as u8], body].concat()
    }

    /// A connection through the proxy: the ends of the driver and of the node.
    fn connection(rule: impl FnMut(Ask, u64) -> Fate + Send + 'static) -> (TcpStream, TcpStream) {
        let pair = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (one, listener.accept().unwrap().0)
        };
        let ((driver, near), (far, node)) = (pair(), pair());
        let rule = Mutex::new(Some((Box::new(rule) as Rule, HashMap::new())));
        connect(&Arc::new(ProxyShared { rule, is_closed: AtomicBool::new(false) }), near, far)
            .unwrap();
        (driver, node)
    }

    #[test]
    fn requests_and_answers_are_lost_and_delayed_by_rule() {
        let fates = [Fate::Lose, Fate::Delay(Duration::from_millis(50)), Fate::LoseAnswer];
        let fate = move |ask, n| match ask {
            Ask::Batch => fates.get(n as usize).copied().unwrap_or(Fate::Pass),
            _ => Fate::Pass,
        };
        let (mut driver, mut node) = connection(fate);
        for n in 0..4 {
            driver.write_all(&frame(n, 0x0d, &[n])).unwrap();
        }
        driver.write_all(&frame(9, 0x0a, b"")).unwrap();
        for expected in [frame(2, 0x0d, &[2]), frame(3, 0x0d, &[3]), frame(9, 0x0a, b"")] {
            assert_eq!(read(&mut node).unwrap(), expected);
        }
        assert_eq!(read(&mut node).unwrap(), frame(1, 0x0d, &[1]), "late");
        for n in [1, 2, 3] {
            node.write_all(&frame(n, 0x08, &[n])).unwrap();
        }
        for n in [1, 3] {
            assert_eq!(read(&mut driver).unwrap(), frame(n, 0x08, &[n]));
        }
    }

    #[test]
    fn a_connection_is_cut_after_the_node_got_the_request() {
        let (mut driver, mut node) = connection(|_, _| Fate::Cut);
        driver.write_all(&frame(1, 0x0d, b"x")).unwrap();
        assert_eq!(read(&mut node).unwrap(), frame(1, 0x0d, b"x"));
        node.write_all(&frame(1, 0x08, b"")).unwrap();
        assert!(read(&mut driver).is_err());
    }
}
