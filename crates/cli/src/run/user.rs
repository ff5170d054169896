//! `user`: adds, lists and removes the users of a database.

use super::open;
use crate::args::{
    AddUserArgs, ListUsersArgs, PasswordArgs, RemoveUserArgs, UserArgs, UserCommand,
};
use crate::failure::Failure;
use crate::output::Output;
use console::Term;
use flagstone::Durability;
use flagstone_server::access::{Role, Users};
use std::io::{BufRead, IsTerminal, Read};

/// More than a password may have.
const LINE_BYTES_MAX: u64 = 4096;

pub(super) fn run(args: &UserArgs) -> Result<(), Failure> {
    match &args.what {
        UserCommand::Add(args) => add(args),
        UserCommand::List(args) => list(args),
        UserCommand::Password(args) => change_password(args),
        UserCommand::Remove(args) => remove(args),
    }
}

fn add(args: &AddUserArgs) -> Result<(), Failure> {
    let password = password(&args.user.name)?;
    let database =
        open::or_make(&args.user.database, args.user.memory.memory, Durability::Buffered)?;
    Users::open(&database)?.create(&args.user.name, &password, vec![args.role()])?;
    open::close(database)
}

fn list(args: &ListUsersArgs) -> Result<(), Failure> {
    let database = open::to_read(&args.database, args.memory)?;
    let mut output = Output::new();
    for user in Users::open(&database)?.list() {
        let roles: Vec<_> = user.roles.iter().map(Role::to_string).collect();
        output.line(&format!("{}\t{}", user.name, roles.join(", ")))?;
    }
    output.flush()
}

fn change_password(args: &PasswordArgs) -> Result<(), Failure> {
    let password = password(&args.user.name)?;
    let database = open::to_write(&args.user.database, args.user.memory.memory)?;
    let is_known = Users::open(&database)?.update(&args.user.name, Some(&password), None)?;
    open::close(database)?;
    if is_known { Ok(()) } else { Err(unknown(&args.user.name)) }
}

fn remove(args: &RemoveUserArgs) -> Result<(), Failure> {
    let database = open::to_write(&args.user.database, args.user.memory.memory)?;
    let is_known = Users::open(&database)?.remove(&args.user.name)?;
    open::close(database)?;
    if is_known { Ok(()) } else { Err(unknown(&args.user.name)) }
}

fn unknown(name: &str) -> Failure {
    Failure::NotFound(format!("there is no user {name:?}"))
}

/// Asks for the password of a user: twice at a terminal, without showing it.
fn password(name: &str) -> Result<String, Failure> {
    let failed = |error| Failure::Io(format!("cannot read the password: {error}"));
    if std::io::stdin().is_terminal() {
        let terminal = Term::stderr();
        let ask = |text: &str| {
            terminal.write_str(text).and_then(|()| terminal.read_secure_line()).map_err(failed)
        };
        let password = ask(&format!("password of {name}: "))?;
        if ask("the same again: ")? != password {
            return Err(Failure::Usage("the passwords differ".to_owned()));
        }
        return Ok(password);
    }
    open::check_stdin("a password at a terminal")?;
    let mut line = String::new();
    std::io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line).map_err(failed)?;
    let len = line.trim_end_matches(['\r', '\n']).len();
    line.truncate(len);
    Ok(line)
}
