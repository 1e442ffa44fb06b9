# The persistence properties P1 to P8, each for random cases. A case is a collection with a random
# history. Many cases share a restart, so that a hundred of them take seconds.
package RagPersistenceProperties;

use strict;
use warnings;

use Encode ();
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use RagCluster;
use RagPersistenceOperations;
use Test::More;
use Time::HiRes qw(time);

our @EXPORT = qw(test_properties result);

my @gentle = qw(add replace repeat add_many fail update remove given delete_chunk alter nothing);
my @slow = qw(rebuild move bundle);

sub test_properties
{
	my ($test) = @_;
	my $cases = $test->cases;
	my @names = map { "p$_" } 1 .. $cases;
	my %property = (
		P6 => sub { status_is_accurate($test, @names) },
		P2 => sub { files_exist($test, @names) },
		P1 => sub { round_trip($test, @names) },
		P8 => sub { isolation($test, @names) },
		P7 => sub { replacement($test, @names) },
		P4 => sub { failures($test, @names) },
		P5 => sub { damage($test, @names) },
		P3 => sub { cleanup($test, @names) });
	for my $name (qw(P6 P2 P1 P8 P7 P4 P5 P3))
	{
		my $started = time;
		$property{$name}->();
		note(sprintf '%s: %.1f s', $name, time - $started);
	}
	my $applied = $test->{applied};
	note('operations: ' . join ', ', map { "$_ $applied->{$_}" } sort keys %$applied);
	return;
}

# Reports what is wrong in all cases, as one test.
sub result
{
	my ($test, $name, @wrong) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $shown = join "\n", @wrong > 20 ? (@wrong[ 0 .. 19 ], '...') : @wrong;
	is($shown, '', $name) or diag("to repeat it: RAG_TEST_SEED=$test->{seed}");
	return;
}

# P6: after each operation the status is exact, and so is all that is stored.
sub status_is_accurate
{
	my ($test, @names) = @_;
	my ($operations, @wrong) = (0);
	for my $name (@names)
	{
		my $c = $test->create($name);
		push @wrong, $test->wrong($name);
		for (1 .. 3 + $test->pick(3))
		{
			push @wrong, $test->apply($c, possible($test, $c, @gentle)), $test->wrong($name);
			$operations++;
		}
		push @wrong, $test->wrong_answers($c) if $test->chance(3);
	}
	# what takes longer
	for my $name (grep { $test->chance(4) } @names)
	{
		my $c = $test->{collections}{$name};
		my @operations = ($test->one_of('sync', @slow), 'sync', $test->one_of(@slow));
		push @wrong, map { ($test->apply($c, possible($test, $c, $_)), $test->wrong($name)) }
		  @operations;
		push @wrong, $test->wrong_answers($c);
	}
	result($test, "P6: the status is accurate after each of $operations operations", @wrong);
	return;
}

# P2: all relations of an indexed collection have their files, and no file is of no relation.
sub files_exist
{
	my ($test, @names) = @_;
	result($test, 'P2: the files of ' . @names . ' collections exist', $test->wrong(@names));
	is($test->stray_files, '', 'P2: no file belongs to no relation');
	return;
}

# P1: everything is the same after a restart, a crash and a replay.
sub round_trip
{
	my ($test, @names) = @_;
	my $node = $test->{node};
	$node->backup('base');
	my %way = (
		'a restart' => sub { $node->restart },
		'an immediate shutdown' => sub { $node->stop('immediate'); $node->start },
		'kill -9' => sub { crash($node) });
	for my $way (sort keys %way)
	{
		# some collections have just changed: these changes are only in the log
		my @wrong = map { $test->fill($test->{collections}{$_}, 1, @gentle) }
		  grep { $test->chance(4) } @names;
		push @wrong, map { $test->fill($test->{collections}{$_}, 1, @slow) }
		  grep { $test->chance(20) } @names;
		push @wrong, $test->wrong(@names);
		my $before = $test->digests(@names);
		$way{$way}->();
		push @wrong, $test->wrong(@names), _changed($before, $test->digests(@names));
		my @some = grep { $test->chance(4) } @names;
		push @wrong, map { $test->wrong_answers($test->{collections}{$_}) } @some;
		result($test, "P1: $way: " . @names . ' collections are as before', @wrong);
	}

	# a base backup, and the log since then
	my $before = $test->digests(@names);
	my $copy = PostgreSQL::Test::Cluster->new($node->name . '_copy');
	$copy->init_from_backup($node, 'base', has_streaming => 1);
	$copy->start;
	$node->wait_for_catchup($copy);
	$copy->promote;
	{
		local $test->{node} = $copy;
		my @wrong = ($test->wrong(@names), _changed($before, $test->digests(@names)));
		# the copy is a server of its own
		my $c = $test->{collections}{ $test->one_of(@names) };
		push @wrong, $test->wrong_answers($c);
		push @wrong, $test->query("SELECT success FROM rag_add_document('A copy.', 'copy',
			collection => '$c->{name}')") eq 't' ? () : 'the copy adds no document';
		result($test, 'P1: a base backup and replay: ' . @names . ' collections are as before',
			@wrong);
	}
	$copy->stop;
	return;
}

sub _changed
{
	my ($before, $after) = @_;
	return map { "$_: something has changed" }
	  grep { $before->{$_} ne ($after->{$_} // '') } sort keys %$before;
}

# P8: an operation on one collection changes nothing in others.
sub isolation
{
	my ($test, @names) = @_;
	my @wrong;
	for my $name (@names)
	{
		my @others = grep { $_ ne $name } map { $test->one_of(@names) } 1 .. 5;
		# the same uris and texts in others
		my $before = $test->digests(@others);
		push @wrong, $test->fill($test->{collections}{$name}, 2, @gentle);
		push @wrong, $test->fill($test->{collections}{$name}, 1, @slow) if $test->chance(10);
		push @wrong, map { "after operations on $name: $_" } _changed($before,
			$test->digests(@others));
	}
	push @wrong, $test->wrong(@names);
	result($test, 'P8: operations on ' . @names . ' collections leave the others alone', @wrong);
	return;
}

# P7: new documents replace the old ones completely.
sub replacement
{
	my ($test, @names) = @_;
	my @wrong;
	for my $name (@names)
	{
		my $c = $test->{collections}{$name};
		my $documents = $c->{documents};
		my @gone = map { $_->{marker} } grep { $_->{kind} eq 'text' && defined $_->{marker} }
		  values %$documents;
		for my $uri (uris($c, sub { $_[0]{kind} eq 'text' }))
		{
			my $new = { %{ $test->text }, $test->labels };
			push @wrong, $test->apply($c, { name => 'replace', changes => 1,
				%{ add_document($test, $c, $uri, $new, 'updated') } });
		}
		push @wrong, $test->wrong($name);
		push @wrong, $test->wrong_answers($c, sort @gone) if $test->chance(2);
	}
	result($test, 'P7: nothing old is found in ' . @names . ' collections', @wrong);
	return;
}

# P4: an operation that fails changes nothing, and the collection can be searched.
sub failures
{
	my ($test, @names) = @_;
	$test->query(q{CREATE FUNCTION probe.full() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
			IF current_setting('probe.fails', true) = TG_ARGV[0] THEN
				RAISE 'could not extend file: No space left on device'
					USING ERRCODE = 'disk_full';
			END IF;
			RETURN NULL;
		END$$});
	my @tables = qw(rag.documents rag_internal.content_change);
	$test->query("CREATE TRIGGER zz_full AFTER INSERT OR UPDATE OR DELETE ON $_
		FOR EACH STATEMENT EXECUTE FUNCTION probe.full('$_')") for @tables;
	my %way = (
		'rolled back' => sub { return "BEGIN; $_[0]; ROLLBACK" },
		'rolled back to a savepoint' =>
		  sub { return "BEGIN; SAVEPOINT s; $_[0]; ROLLBACK TO s; COMMIT" },
		'an error after it' => sub { return "BEGIN; $_[0]; SELECT 1 / 0; COMMIT" },
		'a full disk' => sub {
			my $table = $test->one_of(@tables);
			return "SET probe.fails = '$table'; $_[0]; RESET probe.fails";
		},
		'a session that ends' =>
		  sub { return "BEGIN; $_[0]; SELECT pg_terminate_backend(pg_backend_pid())" });
	my @wrong;
	for my $name (@names)
	{
		my $c = $test->{collections}{$name};
		my $operation = possible($test, $c, qw(add replace add_many update remove given));
		my $way = $test->one_of(sort keys %way);
		# a session of its own: its errors are expected, and some end it
		$test->{node}->psql('postgres', Encode::encode_utf8($way{$way}->($operation->{sql})),
			on_error_stop => 0);
		push @wrong, map { "$operation->{name}, $way: $_" } $test->wrong($name),
		  $test->chance(3) ? $test->wrong_answers($c) : ();
	}
	$test->query("DROP TRIGGER zz_full ON $_") for @tables;
	result($test, 'P4: failures in ' . @names . ' collections change nothing', @wrong);
	return;
}

# P5: damaged collections do not stop the others, are named, and can be repaired.
sub damage
{
	my ($test, @names) = @_;
	my $node = $test->{node};
	my (%index, %table);
	for my $name (@names)
	{
		my $partition = $test->query("SELECT partition FROM rag_collection_status('$name')")
		  or next;
		# damage of a partition that others share is theirs, too
		my $is_shared = $test->{collections}{$name}{retriever} =~ /fixed|rolling/;
		my $what = $is_shared ? 0 : $test->pick(3);
		my $relation =
			$what == 0 ? next
		  : $what == 1 ? $partition
		  : $test->query("SELECT string_agg(indexrelid::regclass::text, ' ' ORDER BY indexrelid)
			FROM pg_index WHERE indrelid = '$partition'::regclass");
		$relation = $test->one_of(split / /, $relation);
		my $path = $test->query("SELECT pg_relation_filepath('$relation')");
		($what == 1 ? \%table : \%index)->{$name} = $node->data_dir . "/$path";
	}
	my @sound = grep { !$index{$_} && !$table{$_} } @names;
	my $before = $test->digests(@sound);
	$node->stop;
	my %kept;
	for my $path (values %index, values %table)
	{
		open my $file, '+<:raw', $path or die "$path: $!";
		$kept{$path} = do { local $/; <$file> };
		for my $block (0 .. (-s $path) / 8192 - 1)
		{
			seek $file, $block * 8192 + 100, 0;
			print $file 'damaged ' x 500;
		}
		close $file;
	}
	$node->start;

	my @wrong = ($test->wrong(@sound), _changed($before, $test->digests(@sound)));
	push @wrong, map { $test->wrong_answers($test->{collections}{$_}) } @sound;
	result($test, 'P5: ' . @sound . ' collections are as before beside damaged ones', @wrong);

	# a damaged index is rebuilt, and until then its collection answers
	@wrong = ();
	for my $name (sort keys %index)
	{
		my $c = $test->{collections}{$name};
		my ($rc, $out, $err) = $node->psql('postgres',
			"SELECT count(*) FROM rag_search('harbour', '$name', top_k => 1000)");
		# without its keyword index a collection of words alone has no scores
		if ($c->{retriever} ne 'persist-words')
		{
			push @wrong, "$name: $err" if $rc != 0;
		}
		elsif ($rc != 0)
		{
			push @wrong, "$name: $err" if $err !~ /data of collection "$name" is.*REINDEX TABLE/s;
		}
		my $partition = $test->query("SELECT partition FROM rag_collection_status('$name')");
		$test->query("REINDEX TABLE $partition");
		push @wrong, map { "after a repair: $_" } $test->wrong($name);
	}
	result($test, 'P5: ' . keys(%index) . ' collections with a damaged index answer', @wrong);

	# a damaged table is an error that names the collection
	@wrong = ();
	for my $name (sort keys %table)
	{
		my $mode = $test->{collections}{$name}{retriever} eq 'persist-words' ? 'keyword' : 'vector';
		my ($rc, $out, $err) = $node->psql('postgres',
			"SELECT count(*) FROM rag_search('harbour tide vessel anchor', '$name',
			mode => '$mode')");
		push @wrong, "$name: found $out" if $rc == 0 && $mode eq 'vector';
		push @wrong, "$name: $err"
		  if $rc != 0 && $err !~ /data of collection "$name" is corrupted.*HINT:.*rag_rebuild/s;
	}
	result($test, 'P5: ' . keys(%table) . ' collections with a damaged table are named', @wrong);
	$node->stop;
	for my $path (values %table)
	{
		open my $file, '>:raw', $path or die "$path: $!";
		print $file $kept{$path};
		close $file;
	}
	# the backup of a server has its marks of damage, too: none
	unlink glob $node->data_dir . '/pg_rag/damage/*';
	$node->start;
	result($test, 'P5: all are as before with the files of a backup', $test->wrong(@names));
	return;
}

# P3: nothing is left of a collection that was dropped.
sub cleanup
{
	my ($test, @names) = @_;
	my @wrong;
	for my $name (@names)
	{
		my $c = delete $test->{collections}{$name};
		my $keep = $test->one_of('true', 'false');
		push @wrong, $test->query("SELECT rag_drop_source('$c->{source}', keep_documents => $keep)")
		  if $c->{source};
		push @wrong, $test->query("SELECT rag_drop_collection('$name')");
		push @wrong, map { "$name: $_" } grep { $_ } $test->left_of($name) if $test->chance(3);
	}
	result($test, 'P3: ' . @names . ' collections are dropped', grep { $_ ne '' } @wrong);
	is($test->left_of(@names), '', 'P3: no row and no partition is left');
	is($test->stray_files, '', 'P3: no file is left');
	my @folders = map { glob $test->{node}->data_dir . "/pg_rag/$_/*" } qw(clones work);
	is("@folders", '', 'P3: no clone and no working file is left');
	return;
}

1;
