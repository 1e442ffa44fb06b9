# What every plan of a search is tried with: rows that change meanwhile, cancels, a standby.
package RagSearches;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use RagCluster;
use Test::More;

our @EXPORT = qw(search_after_change search_is_cancelled standby_of catch_up);

# Runs a search that waits for a row, which another session changes (SET ...) or deletes. Returns
# the result.
sub search_after_change
{
	my ($node, $table, $id, $change, $search) = @_;
	my $writer = session($node);
	my $write = defined $change ? "UPDATE $table $change" : "DELETE FROM $table";
	$writer->query("BEGIN; $write WHERE id = $id");
	my $running = start_sql($node, $search);
	$running->await_locked;
	$writer->query('COMMIT');
	return $running->finish;
}

# Tests that a long search obeys a timeout, a cancel and the end of its session.
sub search_is_cancelled
{
	my ($node, $long) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	error_like(run_sql($node, "SET statement_timeout = '300ms'; $long"),
		'57014', 'statement timeout', undef, 'a search can time out');
	my $session = start_sql($node, $long);
	ask($node, 'SELECT pg_cancel_backend(' . $session->backend . ')');
	error_like($session->finish, '57014', 'user request', undef, 'a search can be cancelled');
	$session = start_sql($node, $long);
	ask($node, 'SELECT pg_terminate_backend(' . $session->backend . ')');
	error_like($session->finish, '57P01', 'administrator command',
		undef, 'a search can be terminated');
	return;
}

# Starts a streaming standby.
sub standby_of
{
	my ($node) = @_;
	$node->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->append_conf('postgresql.conf', 'hot_standby_feedback = on');
	$standby->start;
	return $standby;
}

# Waits until a standby has replayed everything.
sub catch_up
{
	my ($node, $standby) = @_;
	$node->safe_psql('postgres', "SELECT pg_logical_emit_message(true, 'all', '')");
	$node->wait_for_catchup($standby, 'replay', $node->lsn('write'));
	return;
}

1;
