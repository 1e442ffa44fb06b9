# The fault campaign: servers under load, faults that a seed chooses, and checks after each.
#
# Begins a primary, a streaming standby and a subscriber, as the suite says, which is a file of
# tests/faults. Each round has the same parts: clients work (RagFaultsLoad), a fault strikes
# (RagFaultsInject), the server is mended if it must be, everything has to work again within
# RECOVERY seconds, the clients end, and all is compared with the model (RagFaultsChecks).
package RagFaults;

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use RagCluster;
use RagFaultsChecks;
use RagFaultsInject;
use RagFaultsLoad;
use RagFaultsMachine;
use RagFaultsModel;
use RagFaultsOrigins;
use RagFaultsSession;
use Test::More;
use Time::HiRes qw(time usleep);

use constant RECOVERY => 60;

# Takes a hash: seed, suite (its contents), name (of the suite).
sub new
{
	my ($class, %option) = @_;
	my $suite = $option{suite};
	$suite->{$_} //= { writers => 3, searchers => 2 }->{$_} for qw(writers searchers);
	my $self = bless {
		%option, round => 0, folder => temp_folder(), bundles => temp_folder(),
		origins => RagFaultsOrigins->new, model => RagFaultsModel->new,
		count => {}, refused => {}
	}, $class;
	my %known = map { $_ => 1 } faults(), 'flip_pages';
	$known{$_} or die "$option{name}.toml: there is no fault $_" for keys %{ $suite->{faults} };
	$self->_start;
	return $self;
}

# -- servers
# ----------------------------------------

sub _conf
{
	my ($self) = @_;
	my $folder = $self->{bundles};
	return <<CONF . ($self->{suite}{conf} // '');
wal_level = logical
max_wal_senders = 10
hot_standby = on
max_worker_processes = 30
restart_after_crash = on
shared_buffers = 32MB
statement_timeout = 100s
deadlock_timeout = 200ms
autovacuum_naptime = 2s
rag.retry_delay = '200ms'
rag.trigger_delay = '100ms'
rag.allowed_private_hosts = '127.0.0.1'
rag.bundle_folders = '$folder'
CONF
}

sub _start
{
	my ($self) = @_;
	my $conf = $self->_conf;
	local %ENV = (%ENV, $self->_environment);
	my $primary = $self->{primary} = do
	{
		local $PostgreSQL::Test::Utils::tmp_check =
		  $ENV{RAG_FAULTS_DISK} // $PostgreSQL::Test::Utils::tmp_check;
		rag_node('primary', scheduler => 1, conf => $conf);
	};
	$primary->safe_psql('postgres', _functions());
	$primary->safe_psql('postgres', q{
		SELECT rag_create_retriever('quick', '{"storageConfig": {"type": "hnsw"},
			"retrievalMethods": {"vector": {"enabled": true}, "keyword": {"enabled": true},
				"hybrid": {"enabled": true}}}');
		SELECT rag_create_collection(name, 'quick', chunk_size => 100, chunk_overlap => 0)
		FROM unnest(ARRAY['written', 'files', 'repo', 'pages', 'articles', 'probe']) AS name;
		SELECT rag_create_source('articles', 'table',
			'{"relation": "faults.article", "contentColumns": ["body"],
				"sync": "trigger"}', 'articles');
		CREATE PUBLICATION article FOR TABLE faults.article, faults.item});
	my %specs = $self->{origins}->specs;
	$primary->safe_psql('postgres',
		"SELECT rag_create_source('$_', '$specs{$_}[0]', '$specs{$_}[1]', '$_')")
	  for sort keys %specs;
	my $model = $self->{origins}->model;
	$primary->safe_psql('postgres', qq[
		SELECT rag_create_model('far', 'embedding', 'openai',
			'{"base_url": "$model", "model": "tiny"}');
		SELECT rag_create_collection('far', 'quick', chunk_size => 100, chunk_overlap => 0,
			model => 'far')]) if $self->{suite}{far};
	$self->{session} = RagFaultsSession->new($primary, name => 'faults_driver');
	$self->_start_standby if $self->{suite}{standby};
	$self->_start_subscriber if $self->{suite}{subscriber};
	return;
}

# The primary of a suite with a clock has one that jumps.
sub _environment
{
	my ($self) = @_;
	my $library = $self->{suite}{clock} && _faketime() or return;
	$self->{clock} = "$self->{folder}/clock";
	$self->set_clock(0);
	my %environment = (
		LD_PRELOAD => $library, FAKETIME_TIMESTAMP_FILE => $self->{clock}, FAKETIME_NO_CACHE => 1,
		FAKETIME_DONT_FAKE_MONOTONIC => 1, FAKETIME_DONT_RESET => 1);
	$RagFaultsInject::environment{primary} = \%environment;
	return %environment;
}

# The library libfaketime, if it is there.
sub _faketime
{
	my ($library) = glob '/usr/lib/*/faketime/libfaketime.so.1';
	return $library;
}

# Sets the clock of the primary, in seconds from now.
sub set_clock
{
	my ($self, $seconds) = @_;
	write_file("$self->{clock}.new", sprintf "%+d\n", $seconds);
	rename "$self->{clock}.new", $self->{clock} or die $!;
	return;
}

sub _start_standby
{
	my ($self) = @_;
	my $name = 'standby' . ++$self->{standbys};
	$self->{primary}->backup($name);
	my $standby = $self->{standby} = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($self->{primary}, $name, has_streaming => 1);
	$standby->start;
	$self->{standby_session} = RagFaultsSession->new($standby, name => 'faults_driver');
	# what was committed is on the standby, too, which may take the primary's place
	configure($self->{primary}, 'synchronous_standby_names', $name)
	  if $self->{suite}{synchronous};
	return;
}

# The former standby is the primary, and gets a standby. The subscriber begins anew: slots are not
# replicated.
sub replace_primary
{
	my ($self, $new) = @_;
	my $old = $self->{primary};
	$_->close for @$self{qw(session standby_session)};
	$old->stop('immediate', fail_ok => 1);
	$old->clean_node;
	$self->{primary} = $new;
	$self->{session} = RagFaultsSession->new($new, name => 'faults_driver');
	configure($new, 'synchronous_standby_names', '') if $self->{suite}{synchronous};
	$self->_start_standby;
	return if !$self->{subscriber};
	my $there = $new->connstr . ' dbname=postgres';
	$self->{subscriber}->safe_psql('postgres', "
		ALTER SUBSCRIPTION article DISABLE;
		ALTER SUBSCRIPTION article SET (slot_name = NONE);
		DROP SUBSCRIPTION article;
		TRUNCATE faults.article, faults.item;
		CREATE SUBSCRIPTION article CONNECTION '$there' PUBLICATION article");
	return;
}

sub _start_subscriber
{
	my ($self) = @_;
	my $subscriber = $self->{subscriber} =
	  rag_node('subscriber', scheduler => 1, conf => $self->_conf);
	$subscriber->safe_psql('postgres', _functions());
	$subscriber->safe_psql('postgres', q{
		SELECT rag_create_collection('articles', chunk_size => 100, chunk_overlap => 0);
		SELECT rag_create_source('articles', 'table',
			'{"relation": "faults.article", "contentColumns": ["body"],
				"sync": "trigger"}', 'articles')});
	my $there = $self->{primary}->connstr . ' dbname=postgres';
	$subscriber->safe_psql('postgres',
		"CREATE SUBSCRIPTION article CONNECTION '$there' PUBLICATION article");
	$self->{subscriber_session} = RagFaultsSession->new($subscriber, name => 'faults_driver');
	return;
}

sub _functions
{
	return PostgreSQL::Test::Utils::slurp_file(__FILE__ =~ s{[^/]*$}{faults.sql}r);
}

# -- rounds
# ----------------------------------------

# The name of a fault, by the weights of the suite.
sub _choose
{
	my ($self, $die) = @_;
	my $weights = $self->{suite}{faults};
	my $sum = 0;
	$sum += $_ for values %$weights;
	my $at = $die->($sum);
	for my $name (sort keys %$weights)
	{
		$at -= $weights->{$name};
		return $name if $at < 0;
	}
	return;
}

# Runs a round. Returns true if nothing is wrong.
sub round
{
	my ($self) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $round = ++$self->{round};
	my $die = dice($self->{seed}, 'fault', $round);
	my $fault = $self->_choose($die);
	my @clients = start_clients(
		(map { $_ => $self->{$_} } qw(primary standby suite seed round origins folder)),
		bundle_folder => $self->{bundles});
	usleep(1000 * (200 + $die->(1500)));
	my ($hit, $heal, $recovery);
	my @wrong;
	my $is_quiet = $fault =~ /^flip_/;
	eval {
		if (!$is_quiet)
		{
			($hit, $heal) = strike($self, $fault, $die);
			usleep(1000 * $die->(1000)) if $heal;
			$heal->() if $heal;
			$recovery = $self->_recovered;
			usleep(1000 * $die->(400));
		}
		1;
	} or push @wrong, [ 'late', $@ ];
	end_clients($self->{folder}, @clients);
	my @refused = $self->{model}->read_journals($self->{folder});
	push @wrong, $self->_refused(@refused);
	eval {
		push @wrong, settle($self);
		if ($is_quiet)
		{
			($hit, my @found) = RagFaultsMachine->can($fault)->($self, $die);
			push @wrong, @found;
			$recovery = $self->_recovered;
		}
		push @wrong, checks_of($self);
		1;
	} or push @wrong, [ 'late', $@ ];
	push @wrong, [ 'late', "it did not work again in @{[ RECOVERY ]} s" ] if !defined $recovery;
	$self->{count}{ $_->[0] }++ for @wrong;
	$self->{struck}{$fault}++ if defined $hit && $hit !~ /^no /;
	push @{ $self->{recovery} }, $recovery // RECOVERY;
	my $model = $self->{model};
	ok(!@wrong, sprintf 'seed %s, fault %d, %s: %s, recovered in %.2f s, %d writes, %d searches',
		$self->{seed}, $round, $fault, $hit // '', $recovery // -1, scalar @{ $model->{lines} },
		scalar @{ $model->{reads} });
	diag("$_->[0]: " . substr $_->[1], 0, 2000) for @wrong[ 0 .. ($#wrong < 20 ? $#wrong : 20) ];
	return !@wrong;
}

# Writes and searches until they work. Returns the seconds that it took, or undef.
sub _recovered
{
	my ($self) = @_;
	my $start = time;
	my $add = "SELECT success FROM rag_add_document('The probe of round $self->{round}.', 'probe',
		collection => 'probe')";
	while (time - $start < RECOVERY)
	{
		my ($outcome, $output) = $self->{session}->run($add);
		if ($outcome eq 'done' && $output eq 't')
		{
			my ($searched, $found) = $self->{session}->run(
				"SELECT content FROM rag_search('probe of a round', 'probe', top_k => 1)");
			return time - $start if $searched eq 'done' && $found =~ /round $self->{round}\./;
		}
		# a server that had no space for its log has ended
		RagFaultsInject::start_again($self->{primary})
		  if $outcome eq 'away' && !RagFaultsInject::processes($self->{primary});
		usleep(20_000);
	}
	return;
}

# Notes what was refused. Returns what should not have been: internal errors, and statements that
# did not end.
sub _refused
{
	my ($self, @refused) = @_;
	my @wrong;
	for my $line (@refused)
	{
		my ($name, $outcome, $state, $message) = @$line;
		$self->{refused}{"$state $outcome"}++;
		push @{ $self->{examples}{"$state $outcome"} }, "$name: $message"
		  if @{ $self->{examples}{"$state $outcome"} // [] } < 3;
		push @wrong, [ 'late', "$name did not end" ] if $outcome eq 'hung';
		push @wrong, [ 'broken', "$name: $message" ]
		  if $state =~ /^XX/ || $outcome eq 'died';
	}
	return @wrong;
}

# -- the end
# ----------------------------------------

sub report
{
	my ($self) = @_;
	my @recovery = sort { $a <=> $b } @{ $self->{recovery} };
	my %count = %{ $self->{count} };
	my $struck = 0;
	$struck += $_ for values %{ $self->{struck} };
	note(sprintf 'report: %d faults, %d struck; lost %d, doubled %d, stale %d, broken %d, left %d, '
		. 'late %d', $self->{round}, $struck,
		map { $_ // 0 } @count{qw(lost doubled stale broken left late)});
	note(sprintf 'recovery: median %.2f s, longest %.2f s',
		$recovery[ @recovery / 2 ], $recovery[-1]);
	note(sprintf 'writes %d, searches %d', map { $self->{model}{count}{$_} // 0 } qw(W R));
	note('struck: ' . join ', ',
		map { "$_ $self->{struck}{$_}" } sort keys %{ $self->{struck} // {} });
	for my $state (sort keys %{ $self->{refused} })
	{
		note("refused $state: $self->{refused}{$state}, such as "
			. join ' / ', map { substr $_, 0, 160 } @{ $self->{examples}{$state} });
	}
	return;
}

sub stop
{
	my ($self) = @_;
	$_->close for grep { defined } @$self{qw(session standby_session subscriber_session)};
	$_->stop for grep { defined } @$self{qw(subscriber standby primary)};
	return;
}

1;
