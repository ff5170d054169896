//! A connection to a server.

use crate::bodies::{Bodies, Body};
use flagstone_server::wire::MessageReader;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Why a run failed.
pub(crate) type Failed = Box<dyn std::error::Error>;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection with at most one command on its way.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    reader: MessageReader,
    out: Vec<u8>,
    /// When the last command was sent.
    pub(crate) sent: Instant,
}

impl Connection {
    /// Connects, and says hello as drivers do.
    pub(crate) fn open(address: SocketAddr) -> Result<Self, Failed> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (reader, sent) = (MessageReader::new(), Instant::now());
        let mut connection = Self { stream, reader, out: Vec::new(), sent };
        connection.ask(&mut Bodies::new(Body::Hello, 1, 1))?;
        Ok(connection)
    }

    /// Sends a command and waits for its reply.
    pub(crate) fn ask(&mut self, bodies: &mut Bodies) -> Result<(), Failed> {
        self.send(bodies)?;
        self.receive(bodies)
    }

    /// Sends the next command.
    pub(crate) fn send(&mut self, bodies: &mut Bodies) -> Result<(), Failed> {
        self.out.clear();
        bodies.put(&mut self.out)?;
        self.sent = Instant::now();
        self.stream.write_all(&self.out)?;
        Ok(())
    }

    /// Receives a reply.
    pub(crate) fn receive(&mut self, bodies: &Bodies) -> Result<(), Failed> {
        match self.reader.read(&mut self.stream)? {
            Some(message) => bodies.check(message),
            None => Err("the server has closed the connection".into()),
        }
    }
}
