//! Arguments of serve and user.

use super::MemoryArgs;
use crate::units;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use flagstone::Durability;
use flagstone::admin::parse_bytes;
use flagstone_server::access::{Role, RoleKind};
use flagstone_server::net::{Limits, Listen};
use flagstone_server::wire::MESSAGE_BYTES_MAX;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Serve a database to MongoDB drivers, HTTP and browsers
///
/// The database is created if there is none. While it has no users, everybody on this machine may
/// do everything, and clients from elsewhere are refused: see flagstone user.
///
/// SIGTERM or Ctrl-C stops: commands that run are finished, and the database is closed; a second
/// one ends at once. SIGHUP reads the users and the files of TLS again. The log goes to
/// stderr, and names the address of the page for browsers.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct ServeArgs {
    /// The directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// Where to listen: HOST, HOST:PORT or unix:PATH; may be repeated [default: what systemd has
    /// opened, or 127.0.0.1:27017]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<Listen>,
    /// What an acknowledged write survives: none, buffered, interval:100ms, group or each
    #[arg(long, value_name = "WHAT", default_value = "buffered")]
    pub(crate) durability: Durability,
    /// Say to drivers that this is the replica set NAME, for those that want one
    #[arg(long, value_name = "NAME")]
    pub(crate) replica_set: Option<String>,
    /// A name by which HTTP may call the server without users, besides localhost; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) http_host: Vec<String>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Keep this many bytes of changes, for change streams; 0 ends it [default: as it was]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) keep: Option<u64>,
    /// Let users with the role root add backups in this directory: flagstone backup URL
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) backups: Option<PathBuf>,
    /// How long commands that run may take to end when the server stops
    #[arg(long, value_name = "TIME", value_parser = units::duration_of, default_value = "10s")]
    pub(crate) grace: Duration,
    /// The form of the log
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) log: LogArg,
    /// Log commands that take this many milliseconds, by name and collection
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = crate::units::count::<u64>)]
    pub(crate) slow_ms: Option<u64>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// The files of TLS.
#[derive(Args, Debug)]
pub(crate) struct TlsArgs {
    /// Speak TLS with this certificate, in PEM, with those up to an authority
    #[arg(long = "tls-cert", value_name = "FILE", requires = "key",
          value_hint = ValueHint::FilePath)]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long = "tls-key", value_name = "FILE", requires = "cert",
          value_hint = ValueHint::FilePath)]
    pub(crate) key: Option<PathBuf>,
    /// Clients need a certificate that one of these authorities has signed
    #[arg(long = "tls-client-ca", value_name = "FILE", requires = "cert",
          value_hint = ValueHint::FilePath)]
    pub(crate) client_ca: Option<PathBuf>,
}

/// What clients may take.
#[derive(Args, Debug)]
pub(crate) struct LimitArgs {
    /// Connections at a time
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 10_000,
        value_parser = crate::units::count::<usize>)]
    max_connections: usize,
    /// Cursors at a time
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 10_000,
        value_parser = crate::units::count::<usize>)]
    pub(crate) max_cursors: usize,
    /// Sessions at a time
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 100_000,
        value_parser = crate::units::count::<usize>)]
    pub(crate) max_sessions: usize,
    /// Loads over HTTP at a time
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 4,
        value_parser = crate::units::count::<usize>)]
    pub(crate) max_loads: usize,
    /// The longest message: from that of a document of 16 MiB to the 48 MB of the protocol
    #[arg(long, value_name = "BYTES", value_parser = message_bytes, default_value = "48MB")]
    pub(crate) message_bytes: usize,
    /// The longest message before the login
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "16KiB")]
    login_bytes: u64,
    /// Memory of messages that arrive or are not answered yet, of all clients, as much for what
    /// commands are parsed into, and as much for what open cursors keep of that; more wait
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "256MiB")]
    message_memory: u64,
    /// The time for a first message, and for a login
    #[arg(long, value_name = "TIME", value_parser = units::duration_of, default_value = "10s")]
    login_timeout: Duration,
    /// The time between messages of a client that does not log in, as drivers have to watch a
    /// server
    #[arg(long, value_name = "TIME", value_parser = units::duration_of, default_value = "10m")]
    login_idle_timeout: Duration,
    /// The time to send a message
    #[arg(long, value_name = "TIME", value_parser = units::duration_of, default_value = "30s")]
    message_timeout: Duration,
    /// The time to take a reply
    #[arg(long, value_name = "TIME", value_parser = units::duration_of, default_value = "60s")]
    reply_timeout: Duration,
    /// The time between messages [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = units::duration_of)]
    idle_timeout: Option<Duration>,
    /// The time for a command on documents, and for each batch of a cursor, besides maxTimeMS
    /// [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = units::duration_of)]
    pub(crate) command_timeout: Option<Duration>,
    /// The time for which a cursor or a transaction may read one state of the database: what is
    /// overwritten meanwhile stays on disk
    #[arg(long, value_name = "TIME", value_parser = units::duration_of, default_value = "6h")]
    pub(crate) snapshot_age: Duration,
}

/// Reads the length of messages.
fn message_bytes(text: &str) -> Result<usize, String> {
    const LEAST: usize = (16 << 20) + (16 << 10);
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    let within = usize::try_from(bytes).ok().filter(|it| (LEAST..=MESSAGE_BYTES_MAX).contains(it));
    within.ok_or_else(|| format!("expected {LEAST} to {MESSAGE_BYTES_MAX} bytes"))
}

impl LimitArgs {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            connections: self.max_connections,
            message_bytes: self.message_bytes,
            login_bytes: usize::try_from(self.login_bytes).unwrap_or(usize::MAX),
            messages: usize::try_from(self.message_memory).unwrap_or(usize::MAX),
            login: self.login_timeout,
            message: self.message_timeout,
            reply: self.reply_timeout,
            idle: self.idle_timeout,
            login_idle: self.login_idle_timeout,
        }
    }
}

/// The form of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogArg {
    Text,
    Json,
}

/// Run a command of MongoDB drivers, without a server
///
/// Prints the reply in Extended JSON. The database is created if there is none. A reply with
/// "ok": 0 is a failure. {"listCommands":1} lists the commands.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("the command failed"))]
pub(crate) struct CommandArgs {
    /// The directory of the database, or the URL of the server that has it open:
    /// mongodb://USER@HOST:PORT/DATABASE
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// The command in Extended JSON: {"find":"users","filter":{"age":{"$gt":30}}}
    #[arg(value_name = "COMMAND")]
    pub(crate) command: String,
    /// The database of the driver: that of collection shop.orders is shop, that of users main
    /// [default: that of the URL, else main]
    #[arg(long, value_name = "DATABASE")]
    pub(crate) on: Option<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Add, list or remove the users of a database that is served
///
/// A server that runs has the database open: change its users by the commands createUser,
/// updateUser and dropUser then. A password is asked for, or is the first line of stdin.
#[derive(Args, Debug)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    pub(crate) what: UserCommand,
}

impl UserArgs {
    /// Returns the directory of the database.
    pub(crate) fn database(&self) -> &Path {
        match &self.what {
            UserCommand::Add(args) => &args.user.database,
            UserCommand::List(args) => &args.database,
            UserCommand::Password(args) => &args.user.database,
            UserCommand::Remove(args) => &args.user.database,
        }
    }
}

/// What to do with users.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    Add(AddUserArgs),
    List(ListUsersArgs),
    Password(PasswordArgs),
    Remove(RemoveUserArgs),
}

/// Add a user
///
/// The database is created if there is none.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is a user of that name"))]
pub(crate) struct AddUserArgs {
    #[command(flatten)]
    pub(crate) user: UserName,
    /// What the user may do: read, readWrite, or root, which is everything
    #[arg(long, value_name = "ROLE", value_parser = role)]
    pub(crate) role: RoleKind,
    /// Only in this database: the part of a collection's name before the first dot [default: all]
    #[arg(long, value_name = "DATABASE")]
    pub(crate) on: Option<String>,
}

impl AddUserArgs {
    pub(crate) fn role(&self) -> Role {
        Role { kind: self.role, database: self.on.clone() }
    }
}

/// List the users and their roles
#[derive(Args, Debug)]
#[command(after_help = exit_codes!())]
pub(crate) struct ListUsersArgs {
    /// The directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Give a user another password
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such user"))]
pub(crate) struct PasswordArgs {
    #[command(flatten)]
    pub(crate) user: UserName,
}

/// Remove a user
///
/// Without any user the server lets everybody on its machine do everything.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such user"))]
pub(crate) struct RemoveUserArgs {
    #[command(flatten)]
    pub(crate) user: UserName,
}

/// A user of a database.
#[derive(Args, Debug)]
pub(crate) struct UserName {
    /// The directory of the database
    #[arg(value_name = "DB", value_hint = ValueHint::DirPath)]
    pub(crate) database: PathBuf,
    /// The name of the user
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

fn role(text: &str) -> Result<RoleKind, String> {
    RoleKind::parse(text).ok_or_else(|| "expected read, readWrite or root".to_owned())
}
