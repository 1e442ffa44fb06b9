# The model of the fault campaign: what was committed, and what searches may have seen. It is made
# of the journals of RagFaultsLoad.
package RagFaultsModel;

use strict;
use warnings;

sub new
{
	my ($class) = @_;
	return bless { now => {}, count => {} }, $class;
}

# Reads the journals of a round. Returns the lines of what was refused: operation, outcome,
# SQLSTATE, message.
sub read_journals
{
	my ($self, $folder) = @_;
	my (%writes, @lines, @reads, @errors);
	for my $path (sort glob "$folder/journal-*")
	{
		open my $file, '<', $path or die "$path: $!";
		while (defined(my $line = <$file>))
		{
			chomp $line;
			my ($kind, @fields) = split /\t/, $line, -1;
			if ($kind eq 'E') { push @errors, \@fields }
			elsif ($kind eq 'R') { push @reads, \@fields }
			else
			{
				my ($name, $start, $end, $outcome, $versions) = @fields;
				my %line = (name => $name, start => $start, end => $end, outcome => $outcome);
				$line{versions} = { map { split /=/ } split / /, $versions };
				push @lines, \%line;
				push @{ $writes{$_} }, { %line, version => $line{versions}{$_} }
				  for keys %{ $line{versions} };
			}
			$self->{count}{$kind}++;
		}
	}
	@{ $writes{$_} } = sort { $a->{start} <=> $b->{start} } @{ $writes{$_} } for keys %writes;
	@$self{qw(writes lines reads)} = (\%writes, \@lines, \@reads);
	return @errors;
}

# The versions that a key may have now, or had at a time.
sub _possible
{
	my ($self, $key, $time) = @_;
	my %may = (($self->{now}{$key} // '-') => 1);
	for my $write (@{ $self->{writes}{$key} // [] })
	{
		last if defined $time && $write->{start} >= $time;
		%may = () if $write->{outcome} eq 'done';
		$may{ $write->{version} } = 1 if $write->{outcome} ne 'failed';
	}
	return \%may;
}

# Compares the contents of a server, version by key, with the model, which then is as they are.
# Returns what is wrong as [kind, text]; kinds are lost, doubled and stale.
sub compare
{
	my ($self, $seen) = @_;
	my @wrong;
	my %keys = (%{ $self->{now} }, %$seen, %{ $self->{writes} });
	for my $key (sort keys %keys)
	{
		my $may = $self->_possible($key);
		my $is = $seen->{$key} // '-';
		next if $may->{$is};
		my $is_gone = exists $may->{'-'} && keys %$may == 1;
		my $kind = $is eq '-' ? 'lost' : $is_gone ? 'doubled' : 'stale';
		push @wrong, [ $kind, "$key is $is instead of " . join(' or ', sort keys %$may)
			. $self->_history($key) ];
	}
	push @wrong, map { [ 'lost', $_ ] } $self->_halves($seen);
	$self->{now} = {%$seen};
	return @wrong;
}

sub _history
{
	my ($self, $key) = @_;
	return ': before ' . ($self->{now}{$key} // '-') . ', then ' . join ', ',
	  map { "$_->{name} $_->{version} $_->{outcome}" } @{ $self->{writes}{$key} // [] };
}

# Transactions of which only a part is there.
sub _halves
{
	my ($self, $seen) = @_;
	my @wrong;
	for my $line (grep { $_->{outcome} eq 'unknown' } @{ $self->{lines} })
	{
		next if $line->{name} eq 'put_many';    # a transaction for each document is allowed
		my ($there, $not) = (0, 0);
		for my $key (sort keys %{ $line->{versions} })
		{
			my @writes = grep { $_->{outcome} ne 'failed' } @{ $self->{writes}{$key} };
			next if $writes[-1]{start} != $line->{start};
			my $version = $line->{versions}{$key};
			# what cannot be told from before says nothing
			next if $self->_possible($key, $line->{start})->{$version};
			($seen->{$key} // '-') eq $version ? $there++ : $not++;
		}
		push @wrong, "$line->{name} is there in part: $there of " . ($there + $not)
		  if $there && $not;
	}
	return @wrong;
}

# Checks what searches have found: whole documents, of versions that were there during the search.
# Before compare(). Returns what is wrong.
sub check_reads
{
	my ($self) = @_;
	my @wrong;
	for my $read (@{ $self->{reads} })
	{
		my ($of, $server, $start, $end, $found) = @$read;
		my %seen;
		for my $one (split / /, $found)
		{
			my ($uri, $versions, $chunks, $parts) = $one =~ /^(.*)=(.*):(.*):(.*)$/
			  or push @wrong, [ 'stale', "a search of $of returned $one" ] and next;
			my $key = "written:$uri";
			push @wrong, [ 'doubled', "a search of $of on the $server saw $one twice" ]
			  if exists $seen{$key};
			$seen{$key} = $versions;
			push @wrong, [ 'stale', "a search of $of on the $server saw half a document: $one" ]
			  if $versions =~ /\+/ || $chunks ne $parts || $chunks ne 2 + $versions % 3;
		}
		next if $server ne 'primary' || $of !~ /^written/;
		my @keys = $of eq 'written' ? keys %{ { %{ $self->{now} }, %{ $self->{writes} }, %seen } }
		  : keys %seen;
		for my $key (sort grep { /^written:(?:doc|given)/ } @keys)
		{
			my $may = $self->_visible($key, $start, $end);
			my $is = $seen{$key} // '-';
			next if $may->{$is};
			push @wrong, [ $is eq '-' ? 'lost' : 'stale', "a search saw $key as $is instead of "
				. join(' or ', sort keys %$may) . $self->_history($key) ];
		}
	}
	return @wrong;
}

# The versions of a key that a statement may see.
sub _visible
{
	my ($self, $key, $start, $end) = @_;
	my %may = (($self->{now}{$key} // '-') => 1);
	for my $write (@{ $self->{writes}{$key} // [] })
	{
		last if $write->{start} > $end;
		next if $write->{outcome} eq 'failed';
		%may = () if $write->{outcome} eq 'done' && $write->{end} < $start;
		$may{ $write->{version} } = 1;
	}
	return \%may;
}

1;
