//! Restricts which files can be opened, with Landlock (Linux 5.13 and later).
//!
//! Later kernels can do more: 6.7 refuses TCP, 6.12 signals to processes outside of the sandbox,
//! 7.1 connections to Unix sockets by their paths. Features that the present kernel lacks are
//! skipped; [`super::calls`] covers all of them except signals. No kernel refuses `stat`: the
//! existence of a file can be seen.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};

use super::{Calls, Reach};

/// The newest version whose effects are known here.
const NEWEST: ABI = ABI::V10;

/// # Errors
/// What the kernel does not support, as a sentence.
pub fn restrict(reach: &Reach) -> Result<(), String> {
    match rules(reach) {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => Ok(()),
        Ok(RulesetStatus::NotEnforced) => Err(
            "The kernel does not restrict files: it has no Landlock (Linux 5.13), or is \
                started without it."
                .into(),
        ),
        Err(e) => Err(format!("The kernel does not restrict files: {e}.")),
    }
}

fn rules(reach: &Reach) -> Result<RulesetStatus, RulesetError> {
    let list = BitFlags::from(AccessFs::ReadDir);
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let execute = make_bitflags!(AccessFs::{ReadFile | Execute});
    let control = make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | IoctlDev});
    let special = make_bitflags!(AccessFs::{Execute | MakeChar | MakeBlock | MakeSock | MakeFifo});
    let write = AccessFs::from_all(NEWEST) & !special;

    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    if !matches!(reach.calls, Calls::Network | Calls::Requests) {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let rules = rules
        .create()?
        .add_rules(path_beneath_rules(&reach.list, list))?
        .add_rules(path_beneath_rules(&reach.read, read))?
        .add_rules(path_beneath_rules(&reach.execute, execute))?
        .add_rules(path_beneath_rules(&reach.write, write))?
        .add_rules(path_beneath_rules(&reach.control, control))?;
    Ok(rules.restrict_self()?.ruleset)
}
