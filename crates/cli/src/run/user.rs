//! `user`: adds, lists and removes the users of a database.

use super::{open, password};
use crate::args::{
    AddUserArgs, ListUsersArgs, PasswordArgs, RemoveUserArgs, UserArgs, UserCommand,
};
use crate::failure::Failure;
use crate::output::Output;
use flagstone::Durability;
use flagstone_server::access::{Role, Users};

pub(super) fn run(args: &UserArgs) -> Result<(), Failure> {
    match &args.what {
        UserCommand::Add(args) => add(args),
        UserCommand::List(args) => list(args),
        UserCommand::Password(args) => change_password(args),
        UserCommand::Remove(args) => remove(args),
    }
}

fn add(args: &AddUserArgs) -> Result<(), Failure> {
    let password = password::new_of(&args.user.name)?;
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
    let password = password::new_of(&args.user.name)?;
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
