//! `user`: adds, lists and removes the users of a database.

use super::served::Served;
use super::{open, password};
use crate::args::{
    AddUserArgs, ListUsersArgs, PasswordArgs, RemoveUserArgs, UserArgs, UserCommand, UserName,
};
use crate::failure::Failure;
use crate::output::Output;
use flagstone::Durability;
use flagstone_server::access::Role;

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
    let (path, memory) = (&args.user.database, args.user.memory.memory);
    let served = Served::open(path, memory, || open::or_make(path, memory, Durability::Buffered))?;
    served.users()?.create(&args.user.name, &password, vec![args.role()])?;
    served.close()
}

fn list(args: &ListUsersArgs) -> Result<(), Failure> {
    let path = &args.database;
    let served = Served::open(path, args.memory.memory, || open::to_read(path, args.memory))?;
    let mut output = Output::new();
    for user in served.users()?.list() {
        let roles: Vec<_> = user.roles.iter().map(Role::to_string).collect();
        output.line(&format!("{}\t{}", user.name, roles.join(", ")))?;
    }
    output.flush()?;
    served.close()
}

fn change_password(args: &PasswordArgs) -> Result<(), Failure> {
    let password = password::new_of(&args.user.name)?;
    let served = to_write(&args.user)?;
    let is_known = served.users()?.update(&args.user.name, Some(&password), None)?;
    served.close()?;
    if is_known { Ok(()) } else { Err(unknown(&args.user.name)) }
}

fn remove(args: &RemoveUserArgs) -> Result<(), Failure> {
    let served = to_write(&args.user)?;
    let is_known = served.users()?.remove(&args.user.name)?;
    served.close()?;
    if is_known { Ok(()) } else { Err(unknown(&args.user.name)) }
}

fn to_write(user: &UserName) -> Result<Served, Failure> {
    let (path, memory) = (&user.database, user.memory.memory);
    Served::open(path, memory, || open::to_write(path, memory))
}

fn unknown(name: &str) -> Failure {
    Failure::NotFound(format!("there is no user {name:?}"))
}
