//! `et completions`: what a shell needs to complete our commands.

use crate::args::Cli;
use crate::report::Report;
use clap::CommandFactory;
use clap_complete::Shell;

/// The script of a shell.
pub(crate) fn run(shell: Shell) -> Report {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "et", &mut script);
    Report::text(String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_completed() {
        let script = run(Shell::Bash).text;
        for command in Cli::command().get_subcommands() {
            assert!(
                script.contains(command.get_name()),
                "{}",
                command.get_name()
            );
        }
    }
}
