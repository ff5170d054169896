//! What a command needs, and what the roles of a user allow.

use std::fmt;

/// What a command needs on its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it tells nothing about data, and a client sends it before it logs in.
    Nothing,
    /// A user, whatever the roles.
    Login,
    /// To read documents.
    Read,
    /// To read documents of all databases.
    ReadAll,
    /// To change documents.
    Write,
    /// To change users or other databases.
    Root,
}

/// What a role allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleKind {
    /// To read.
    Read,
    /// To read and write.
    ReadWrite,
    /// Everything.
    Root,
}

/// A role of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// What it allows.
    pub kind: RoleKind,
    /// The database for which it holds; `None` for all.
    pub database: Option<String>,
}

/// A user that has logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The roles. A user without roles may log in, and no more.
    pub roles: Vec<Role>,
}

/// The database to which users belong. Who may change users could give himself any role.
pub(crate) const ADMIN: &str = "admin";

impl User {
    /// Returns whether the roles give what a command on `database` needs.
    ///
    /// ```
    /// use flagstone_server::access::{Need, Role, RoleKind, User};
    /// let role = Role { kind: RoleKind::ReadWrite, database: Some("shop".to_owned()) };
    /// let ada = User { name: "ada".to_owned(), roles: vec![role] };
    /// assert!(ada.may(Need::Write, "shop") && !ada.may(Need::Read, "stock"));
    /// ```
    pub fn may(&self, need: Need, database: &str) -> bool {
        let least = match need {
            Need::Nothing | Need::Login => return true,
            Need::Read | Need::ReadAll => RoleKind::Read,
            Need::Write => RoleKind::ReadWrite,
            Need::Root => RoleKind::Root,
        };
        let is_of_all = need == Need::ReadAll;
        let holds = |of: &str| of == database && !is_of_all && !(need == Need::Root && of == ADMIN);
        let mut roles = self.roles.iter();
        roles.any(|role| role.kind >= least && role.database.as_deref().is_none_or(holds))
    }
}

impl RoleKind {
    /// Returns the role that MongoDB calls `name`; `None` for those that there are not.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Read, Self::ReadWrite, Self::Root].into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the name that MongoDB has for the role.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadWrite => "readWrite",
            Self::Root => "root",
        }
    }
}

impl fmt::Display for RoleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.database {
            Some(database) => write!(f, "{} on {database}", self.kind),
            None => self.kind.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(kind: RoleKind, database: Option<&str>) -> User {
        let database = database.map(str::to_owned);
        User { name: "ada".to_owned(), roles: vec![Role { kind, database }] }
    }

    #[test]
    fn a_role_allows_its_kind_on_its_database() {
        for (kind, most) in [
            (RoleKind::Read, Need::Read),
            (RoleKind::ReadWrite, Need::Write),
            (RoleKind::Root, Need::Root),
        ] {
            for (rank, need) in [
                (0, Need::Nothing),
                (0, Need::Login),
                (1, Need::Read),
                (2, Need::Write),
                (3, Need::Root),
            ] {
                let allowed = rank <= kind as i32 + 1;
                assert_eq!(user(kind, None).may(need, "shop"), allowed, "{kind} {need:?}");
                assert_eq!(user(kind, Some("shop")).may(need, "shop"), allowed);
                assert_eq!(user(kind, Some("shop")).may(need, "stock"), rank == 0);
            }
            assert!(user(kind, None).may(most, "shop"));
        }
        let nobody = User { name: "eve".to_owned(), roles: Vec::new() };
        assert!(nobody.may(Need::Login, "shop") && !nobody.may(Need::Read, "shop"));
    }

    /// Who changes users could make one that may do everything.
    #[test]
    fn root_of_the_database_admin_is_not_root_of_users() {
        assert!(!user(RoleKind::Root, Some("admin")).may(Need::Root, "admin"));
        assert!(user(RoleKind::Root, Some("admin")).may(Need::Write, "admin"));
        assert!(user(RoleKind::Root, None).may(Need::Root, "admin"));
    }

    #[test]
    fn roles_are_read_as_they_are_written() {
        for kind in [RoleKind::Read, RoleKind::ReadWrite, RoleKind::Root] {
            assert_eq!(RoleKind::parse(kind.name()), Some(kind));
        }
        assert_eq!(RoleKind::parse("dbOwner"), None);
        let role = Role { kind: RoleKind::Read, database: Some("shop".to_owned()) };
        assert_eq!(role.to_string(), "read on shop");
    }
}
